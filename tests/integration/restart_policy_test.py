"""What follows a failure: budgets of ranks, waits, rules by the reason of the end, nodes that are set aside."""

import json

from harness import sh

COUNT = "$TORCHELASTIC_RESTART_COUNT"


def report_of(path):
    return json.loads(path.read_text())


def test_a_rank_has_a_budget_of_its_own_and_restarts_wait(node0, scratch):
    options = ("-n", "2", "--max-restarts", "5", "--restarts-per-rank", "2", "--report", scratch / "r.json")
    result = node0.run(*options, *sh("[ $RANK = 1 ] && exit 3; exec sleep 1090"))
    assert result.code == 3 and not node0.called("sleep 1090"), result
    assert "  not started again: rank 1 has used all its 2 restarts (--restarts-per-rank)\n" in result.errors, result
    report = report_of(scratch / "r.json")
    assert (report["restarts"], report["restarts_used"], report["restarts_max"]) == (2, 2, 5), report
    first, second = report["history"]
    assert first.endswith("; restart 1 of 5 (rank 1: 1 of 2)"), first
    assert "; restart 2 of 5 (rank 1: 2 of 2) in " in second and ": the last round lived " in second, second


def test_rules_of_a_job_file(node0, scratch):
    (scratch / "job.yaml").write_text(
        "np: 1\nmax-restarts: 1\nrestart-wait: 0\non-exit:\n- {code: [75, 80-82], do: restart-free}\n- {code: 2, do: stop}\n"
        f"command: [sh, -c, 'case {COUNT} in 0|1) exit 75;; 2) exit 81;; 3) kill -SEGV $$;; esac; exit 2']\n"
    )
    result = node0.run("--config", scratch / "job.yaml", "--report", scratch / "r.json")
    assert result.code == 2 and "  not started again: --on-exit code=2:stop\n" in result.errors, result
    report = report_of(scratch / "r.json")
    assert (report["restarts"], report["restarts_used"]) == (4, 1), report
    free = "; restart free of charge, as --on-exit code=75,80-82:restart-free says; used are 0 of 1"
    assert [line.endswith(free) for line in report["history"]] == [True, True, True, False], report
    assert report["history"][3].endswith("; restart 1 of 1"), report


def test_a_rule_that_is_none_is_told_with_its_line(node0, scratch):
    (scratch / "job.yaml").write_text("np: 1\non-exit:\n- {code: 75, do: retry}\ncommand: [true]\n")
    result = node0.run("--config", scratch / "job.yaml")
    assert result.code == 2, result
    assert "job.yaml:3:3: on-exit: want stop, restart, restart-free or replace-node behind the colon, got 'code=75:retry'" in result.errors, result


def test_never_is_never(node0):
    result = node0.run("-n", "2", "--restart=never", "--max-restarts", "3", *sh("echo max $TORCHELASTIC_MAX_RESTARTS; exit 4"))
    assert result.code == 4 and "restart 1" not in result.errors and "max 0" in result.text, result


def test_a_bad_node_is_set_aside_where_the_others_are_enough(node0, scratch):
    script = f'echo "round {COUNT} world $WORLD_SIZE"; [ {COUNT} = 0 ] || exit 0; [ $GROUP_RANK = 1 ] && exit 3; exec sleep 1091'
    options = ("--standalone", "--nnodes", "2:3", "--nproc-per-node", "1", "--max-restarts", "2", "--bad-node-after", "1")
    result = node0.run(*options, "--report", scratch / "r.json", *sh(script))
    assert result.code == 0, result
    assert "round 0 world 3" in result.text and result.text.count("round 1 world 2") == 2, result
    assert ": 1 failure began there" in report_of(scratch / "r.json")["history"][0], result


def test_the_only_other_node_is_too_few(node0, scratch):
    script = f'echo "round {COUNT} world $WORLD_SIZE"; [ {COUNT} = 0 ] || exit 0; [ $GROUP_RANK = 1 ] && kill -BUS $$; exec sleep 1092'
    options = ("--standalone", "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "2", "--on-exit", "signal=SIGBUS:replace-node")
    result = node0.run(*options, *sh(script))
    assert result.code == 0 and result.text.count("round 1 world 2") == 2, result
    assert " stays in: there is 1 other node, the job needs 2" in result.errors, result
