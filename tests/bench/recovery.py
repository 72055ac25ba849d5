#!/usr/bin/python3
"""From a kill -9 to a job that runs again, on three emulated hosts: medians, as CSV. Needs root.

worker      one of 2 x 2 workers, --max-restarts: until the last replacement is exec'ed, their own stop included
agent       an agent (both its processes) of three nodes, --nnodes 1:3: until the two others run again
agent_back  the same of two nodes that are both needed: until both run again, with a new agent over ssh
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
from harness import Lab, Shell, kill_all, leave_nothing, sh  # noqa: E402

# Each worker says when it is there, by the clock that all hosts share.
WORKER = "echo \"$WORLD_SIZE $(date +%s.%N)\"; exec sleep 1091"


def starts(job, world, count):
    return sorted(float(at) for at in job.expect(rf"\b{world} (\d+\.\d+)", count))


def end(job):
    job.signal(2)
    job.finish()


def worker(shells):
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "2", "--max-restarts", "1", *sh(WORKER))
    starts(job, 4, 4)
    killed = time.time()
    kill_all(shells[1].called("sleep 1091")[:1])
    took = starts(job, 4, 8)[-1] - killed
    end(job)
    return took


def agent(shells):
    job = shells[0].start("--nnodes", "1:3", "--hosts", "node0,node1,node2", "--nproc-per-node", "1", *sh(WORKER))
    starts(job, 3, 3)
    killed = time.time()
    kill_all(list(shells[1].ours()))
    took = starts(job, 2, 2)[-1] - killed
    end(job)
    return took


def agent_back(shells):
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "1", "--max-restarts", "1", *sh(WORKER))
    starts(job, 2, 2)
    killed = time.time()
    kill_all(list(shells[1].ours()))
    took = starts(job, 2, 4)[-1] - killed
    end(job)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20, help="repetitions of each case (20)")
    options = parser.parse_args()
    print("bench,case,median,unit,min,max,repetitions")
    with Lab(3) as lab:
        for case in (worker, agent, agent_back):
            took = []
            for _ in range(options.repeat):
                shells = [Shell(host) for host in lab]
                took.append(1e3 * case(shells))
                leave_nothing(lab, shells)
            print(f"recovery,{case.__name__},{statistics.median(took):.0f},ms,{min(took):.0f},{max(took):.0f},{len(took)}", flush=True)


if __name__ == "__main__":
    main()
