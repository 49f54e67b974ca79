# The worker and its objects, for trying it: `workerd serve config.capnp --directory-path=objects=/an/absolute/folder`.
# MANAGER is where `lockstep txm` listens; KEY is a key of the role send, if it wants one.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "edge", worker = .edge),
    (name = "objects", disk = (writable = true)),
    (name = "manager", external = (address = "127.0.0.1:7550", http = ())),
  ],
  sockets = [(name = "http", address = "127.0.0.1:8780", http = (), service = "edge")],
);

const edge :Workerd.Worker = (
  modules = [
    (name = "worker", esModule = embed "worker.js"),
    (name = "lockstep-txm", esModule = embed "node_modules/lockstep-txm/dist/index.js"),
  ],
  compatibilityDate = "2026-01-01",
  durableObjectNamespaces = [(className = "Line", uniqueKey = "lines", enableSql = true)],
  durableObjectStorage = (localDisk = "objects"),
  bindings = [
    (name = "LINES", durableObjectNamespace = "Line"),
    (name = "MANAGER", service = "manager"),
    (name = "CHAIN", text = "298"),
    (name = "KEY", fromEnvironment = "TXM_API_KEY"),
  ],
);
