"""Remote runs: the settings are understood, the vendor's tracker and boards are not part of this package."""

from __future__ import annotations

import os
from typing import Any, Optional

from ._settings import Switches, switches


def rpc_session_key(active: Optional[Switches] = None) -> Optional[str]:
    """The key of a remote board if ``CPS_DSL`` asks for a remote run, else None."""
    active = active or switches()
    if not active.rpc:
        return None
    return active.rpc_key or os.environ.get("CPS_TVM_RPC_KEY")


def get_rpc_session(
    session_timeout: int = 600,
    rpc_key: Optional[str] = None,
    tracker_host: Optional[str] = None,
    tracker_port: Optional[int] = None,
    priority: int = 1,
) -> Any:
    """A session on a remote board, through a tracker.

    A key given here wins over the environment; of the other settings the environment (``CPS_TVM_RPC_TRACKER_IP``,
    ``_PORT``,
    ``CPS_TVM_RPC_PRIORITY``) wins. This package has no remote runs: RuntimeError that names what was asked for.
    """
    key = rpc_key or rpc_session_key() or os.environ.get("CPS_TVM_RPC_KEY")
    host = os.environ.get("CPS_TVM_RPC_TRACKER_IP", tracker_host)
    port = os.environ.get("CPS_TVM_RPC_TRACKER_PORT", tracker_port)
    rank = os.environ.get("CPS_TVM_RPC_PRIORITY", priority)
    assert key, "Please set the RPC key first."
    raise RuntimeError(
        f'Can\'t get the board "{key}" from the tracker {host}:{port} (priority {rank}, timeout {session_timeout} s): '
        "remote runs are not supported, kernels run on the model of the target on this machine."
    )
