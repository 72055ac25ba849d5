"""What README.md and the guides in deploy/docs/ say that can be checked: links and their anchors lead somewhere, each guide is
linked from the README, and each `--option` exists, in `launch` or in the program that is named before it.
"""

import posixpath
import re

README, GUIDES, OPTION_TABLE = "README.md", "deploy/docs/", "launcher/option_table.cc"

# Program of ours -> where its options are. Those that pass their line on to launch take launch's, too.
SOURCES = {
    "launch": (OPTION_TABLE,),
    "launch doctor": (OPTION_TABLE, "launcher/doctor/doctor_command.cc"),
    "launch sweep": (OPTION_TABLE, "launcher/sweep/sweep_command.cc"),
    **{f"launch {word}": ("launcher/jobs/job_command.cc",) for word in ("ps", "attach", "logs", "stop", "restart", "chaos")},
    "muster-rendezvous": ("rendezvous/daemon_options.cc",),
    "bench": ("tests/bench/compare.py",),
    "collectives_hosts.py": ("tests/bench/collectives_hosts.py", "tests/bench/pairs.py"),
}
SAME = {"muster.run": "launch", "torchrun": "launch"}
# Programs of others -> their options that are named here.
OTHERS = {
    "cmake": {"--build", "--install", "--prefix", "--preset"},
    "gdb": {"--args"},
    "kubectl": {"--from-literal"},
    "pip": {"--no-build-isolation", "--no-index"},
    "salloc": {"--gres"},
    "sbatch": {"--distribution", "--gpu-bind", "--gpus", "--gpus-per-task", "--no-kill", "--no-requeue", "--ntasks-per-gpu", "--ntasks-per-node", "--requeue", "--signal"},
    "srun": {"--exact", "--gpus", "--ntasks-per-node"},
}
# What other launchers give to a script, and a script may ask for.
OF_SCRIPTS = {"--local-rank"}


def split(text):
    """(number, line without code, pieces of code in it) for each line; in a block of code all of it is one."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield number, "", [re.split(r"\s#\s", line)[0]]
        else:
            yield number, re.sub(r"`[^`]+`", "", line), re.findall(r"`([^`]+)`", line)


def anchors(text):
    """As GitHub makes them of headings."""
    found, fenced = set(), False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (match := re.match(r"#{1,6} +(.*)", line)):
            name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).strip().lower()
            name = anchor = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
            again = 0
            while anchor in found:
                again += 1
                anchor = f"{name}-{again}"
            found.add(anchor)
    return found


def options(code):
    """(program, option) for each option in a command or a part of one, which is launch's unless it says another."""
    program, before = "launch", ""
    for word in re.split(r"[\s;&|]+", code):
        word = word.strip("'\"(),")
        name = posixpath.basename(word)
        if match := re.match(r"--[A-Za-z][\w-]*", word):
            if program:
                yield program, match[0]
        elif word == ":" or name == "launch" or name in SAME:
            program = "launch"
        elif before == "launch" and f"launch {word}" in SOURCES:
            program = f"launch {word}"
        elif name in SOURCES or name in OTHERS:
            program = name
        elif program and program.startswith("launch") and (word.startswith("./") or word.endswith(".py")):
            program = ""  # what follows is for the user's program
        before = name


def names_of(program, texts):
    """Options in the sources of a program: '--name' in a text, of launch the names of the table's rows alone."""
    names = set()
    for path in SOURCES[program]:
        text = texts.get(path, "")
        if path == OPTION_TABLE:
            rows = re.findall(r'"((?:--?[A-Za-z][\w-]* ?)+)"', text)
            names |= {name for row in rows for name in row.split()}
        else:
            names |= set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))
            names |= {f"--{name}" for name in re.findall(r'"([a-z][\w-]*)"', text)}
    return names


def check_options(path, text, texts, say):
    known = {program: names_of(program, texts) for program in SOURCES}
    for number, _, pieces in split(text):
        for program, option in (found for code in pieces for found in options(code)):
            if re.search("[A-Z]", option):
                continue  # --no-X: any
            name = option.replace("_", "-")
            if program in OTHERS:
                if name not in OTHERS[program]:
                    say(path, number, f"'{option}': not among the options of {program} in tests/arch/check_docs.py")
                continue
            cut_short = f"torchrun {option}" in text and any(n.startswith(name) for n in known[program])
            undone = name.replace("--no-", "--", 1) in known[program]
            if not (name in known[program] or name in OF_SCRIPTS or undone or cut_short):
                say(path, number, f"'{option}': no option of {program} ({', '.join(SOURCES[program])})")


def check_links(path, text, texts, paths, say):
    for number, prose, _ in split(text):
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            if there not in paths and not any(p.startswith(there + "/") for p in paths):
                say(path, number, f"'{target}': there is no {there}")
            elif anchor and anchor not in anchors(texts.get(there, "")):
                say(path, number, f"'{target}': {there} has no such heading")


def check(texts, paths, say):
    linked = {posixpath.normpath(target.partition("#")[0]) for target in re.findall(r"\]\(([^)\s]+)\)", texts.get(README, ""))}
    for path, text in texts.items():
        if not path.endswith(".md"):
            continue
        check_links(path, text, texts, set(paths), say)
        if path == README or path.startswith(GUIDES):
            check_options(path, text, texts, say)
        if path.startswith(GUIDES) and path not in linked:
            say(path, 1, f"{README} does not link this guide")
