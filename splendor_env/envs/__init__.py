"""Adapters of the core to the common environment APIs. No rule of the game is in here."""

PETTINGZOO_ID = "splendor_v0"


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
