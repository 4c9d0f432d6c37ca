"""A plan served by the devices of a cluster. Ray carries placement, health and changes; requests go over HTTP."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.fleet.serving.cluster_serve import OnCluster, Opened, serve
else:
    __getattr__, __dir__ = front(__name__, __file__)
