"""What tests of launch doctor share: three hosts, and how its words are read."""

import json

HOSTS = ["--hosts", "node0,node1,node2"]


def rows_of(text, code):
    """{check: [its rows]} of what a doctor that ended with `code` has said."""
    said = json.loads(text)
    assert said["format"] == "muster-doctor-1" and said["ok"] == (code == 0), said
    checks = {}
    for row in said["checks"]:
        checks.setdefault(row["check"], []).append(row)
    return checks


def doctor(shell, *args, code=1, **kw):
    """{check: [its rows]} of a doctor that ends with `code`."""
    result = shell.run("doctor", "--json", *args, **kw)
    assert result.code == code, result
    return rows_of(result.text, code)


def red(checks):
    """{check: [(where, seen)]} of what is bad; a row that is not well says what to do."""
    rows = [row for rows in checks.values() for row in rows]
    assert all(bool(row["fix"]) == (row["health"] != "ok") for row in rows), rows
    found = {}
    for row in rows:
        if row["health"] == "bad":
            found.setdefault(row["check"], []).append((row["where"], row["seen"]))
    return found


def only_red(checks, check, where=None):
    """What the one bad check has seen."""
    found = red(checks)
    assert list(found) == [check], found
    assert where is None or [place for place, _ in found[check]] == [where], found
    return [seen for _, seen in found[check]]


def the_row(checks, health, check, where):
    """(seen, fix) of the one row that this check has; no other check is red."""
    assert set(red(checks)) <= {check}, checks
    (row,) = checks[check]
    assert (row["health"], row["where"]) == (health, where), row
    return row["seen"], row["fix"]
