"""What frameworks that Debian does not have make of a process's environment: their rules, restated. Each says where a framework looks in which
order, with the file of its source that says so."""


def jax_cluster(env):
    """What jax.distributed.initialize() without arguments finds: (by whom, address, processes, process, local process), or None: it wants
    arguments. jax/_src/clusters/{ompi,mpi4py,slurm,k8s}_cluster.py, in the order of jax/_src/clusters/__init__.py."""
    if "OMPI_MCA_orte_hnp_uri" in env:
        return ("ompi", None, *(int(env[f"OMPI_COMM_WORLD_{name}"]) for name in ("SIZE", "RANK", "LOCAL_RANK")))
    if env.get("PRTE_LAUNCHED") == "1":
        return ("prrte", None, *(int(env[f"OMPI_COMM_WORLD_{name}"]) for name in ("SIZE", "RANK", "LOCAL_RANK")))
    if "SLURM_JOB_ID" in env:
        nodes = env["SLURM_STEP_NODELIST"]
        bracket, comma = nodes.find("["), nodes.find(",")
        if bracket < 0 or 0 <= comma < bracket:
            first = nodes.split(",")[0]
        else:  # prefix[4-7,9] or prefix[4,9]
            first = nodes[:bracket] + nodes[bracket + 1 :].split(",")[0].split("-")[0].rstrip("]")
        port = 61440 + int(env["SLURM_JOB_ID"]) % 4096
        return ("slurm", f"{first}:{port}", *(int(env[f"SLURM_{name}"]) for name in ("NTASKS", "PROCID", "LOCALID")))
    return "k8s" if "KUBERNETES_SERVICE_HOST" in env else None


def lightning_place(env):
    """(whose environment, world size, rank, local rank, node rank): the first of torchelastic, Slurm and its own that says that it is there.
    lightning/fabric/plugins/environments/{torchelastic,slurm,lightning}.py"""
    if "TORCHELASTIC_RUN_ID" in env:
        return ("torchelastic", *(int(env[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "GROUP_RANK")))
    if "SLURM_NTASKS" in env and env.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        return ("slurm", *(int(env[f"SLURM_{name}"]) for name in ("NTASKS", "PROCID", "LOCALID", "NODEID")))
    return ("lightning", None, None, int(env.get("LOCAL_RANK", 0)), int(env.get("NODE_RANK", env.get("GROUP_RANK", 0))))


def first_number(env, *names):
    """Of the variables that are set, and not -1."""
    return next((int(env[name]) for name in names if int(env.get(name, -1)) >= 0), None)


def accelerate_place(env):
    """(world size, rank, local rank, local size) of a process on CPUs: of each the first variable that is there. accelerate/state.py; more than one
    node without MASTER_ADDR is an error."""
    return (
        first_number(env, "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE"),
        first_number(env, "RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"),
        first_number(env, "LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"),
        first_number(env, "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    )


def deepspeed_place(env):
    """(world size, rank, local rank), or "mpi": init_distributed() would ask mpi4py, or a service of which these
    names tell. deepspeed/comm/comm.py"""
    for elsewhere in ("AZUREML_EXPERIMENT_ID", "SM_TRAINING_ENV", "DLTS_JOB_ID"):
        if elsewhere in env:
            return elsewhere
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"} <= set(env):
        return "mpi"
    return tuple(int(env[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
