"""Adapters of the core to the common environment APIs. No rule of the game is in here."""

PETTINGZOO_ID = "splendor_v0"
GYMNASIUM_ID = "Splendor-v0"


def register_gymnasium() -> None:
    """Make `gymnasium.make` and `make_vec` work for "Splendor-v0"; a second call does nothing."""
    import gymnasium

    if GYMNASIUM_ID not in gymnasium.registry:
        gymnasium.register(
            GYMNASIUM_ID,
            entry_point="splendor_env.envs.vector:SplendorEnv",
            vector_entry_point="splendor_env.envs.vector:SplendorVectorEnv",
        )


def register_pettingzoo() -> None:
    """Make `pettingzoo.make("aec" or "parallel", "splendor_v0")` work; a second call does nothing.

    PettingZoo has a registry since 1.27; before, there is nothing to register with.
    """
    import pettingzoo

    if not hasattr(pettingzoo, "register"):
        return
    # The registry writes the version of an id with a dash.
    if PETTINGZOO_ID.replace("_", "-") in pettingzoo.aec_registry:
        return
    pettingzoo.register("aec", PETTINGZOO_ID, "splendor_env.envs.aec:env")
    pettingzoo.register("parallel", PETTINGZOO_ID, "splendor_env.envs.aec:parallel_env")
