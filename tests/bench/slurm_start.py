#!/usr/bin/python3
"""Time of /bin/true, 4 on each host of a Slurm job of 2 and of 16 emulated hosts: launch against Hydra, Open MPI and srun.

Needs root. Each is run as a line of the job's script would: on its first host, in the script's environment. Hydra and Open
MPI start their daemons by srun, too.
"""

import sys

from pairs import HYDRA, LAUNCH, ROOT, Bench, clean_env, seconds_of

sys.path.insert(0, str(ROOT / "tests/integration/lab"))
from lab import Lab, wait_for  # noqa: E402

EACH = 4
SCRIPT = "#!/bin/bash\nenv -0 > environment.part\nmv environment.part environment\nexec sleep 1000000\n"


def script_environment(lab, nodes):
    """Of a job of the first `nodes` hosts, which runs until the lab ends: what Slurm has added."""
    folder = lab.state / "home" / f"bench{nodes}"
    folder.mkdir()
    options = [f"--nodelist=node[0-{nodes - 1}]", f"--ntasks-per-node={EACH}", "--overcommit", "--output=/dev/null"]
    lab[0].check(["sbatch", *options], input=SCRIPT.encode(), stdin=None, cwd=folder, env=clean_env())
    said = folder / "environment"
    wait_for(said.exists, what=f"a job of {nodes} hosts begins")
    return [line for line in said.read_text().split("\0") if line.startswith(("SLURM", "TMPDIR="))]


def tools(enter, nodes):
    count = nodes * EACH
    commands = {
        "muster": [LAUNCH, "--nproc-per-node", EACH, "/bin/true"],
        "hydra": [HYDRA, "-ppn", EACH, "-n", count, "/bin/true"],
        "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", count, "/bin/true"],
        "srun": ["srun", "--overlap", "--mpi=none", "--cpu-bind=none", f"--ntasks={count}", "/bin/true"],
    }
    # Hydra was seen to die of SIGPIPE, once in some hundred runs.
    return {tool: lambda argv=argv: 1e3 * seconds_of(argv, enter, tries=3) for tool, argv in commands.items()}


def main():
    bench = Bench("slurm_start", "ms")
    with Lab(2 if bench.smoke else 16, ssh=False, batch="slurm") as lab:
        for nodes in (2,) if bench.smoke else (2, 16):
            enter = [*lab[0].enter(), *script_environment(lab, nodes)]
            bench.case(f"true {nodes} x {EACH}", tools(enter, nodes), 11 if bench.smoke else 15)
            lab[0].check(["scancel", "--full", "--signal=KILL", "--name=sbatch"])
    bench.finish()


if __name__ == "__main__":
    main()
