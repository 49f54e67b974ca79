# Two isolates of the worker, for trying it: `workerd serve config.capnp`.
# MANAGER is where `lockstep txm` listens; KEY is a key of the role send, if it wants one.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "edge-0", worker = .edge),
    (name = "edge-1", worker = .edge),
    (name = "manager", external = (address = "127.0.0.1:7550", http = ())),
  ],
  sockets = [
    (name = "http-0", address = "127.0.0.1:8780", http = (), service = "edge-0"),
    (name = "http-1", address = "127.0.0.1:8781", http = (), service = "edge-1"),
  ],
);

const edge :Workerd.Worker = (
  modules = [
    (name = "worker", esModule = embed "worker.js"),
    (name = "lockstep-txm", esModule = embed "node_modules/lockstep-txm/dist/index.js"),
  ],
  compatibilityDate = "2026-01-01",
  bindings = [
    (name = "MANAGER", service = "manager"),
    (name = "CHAIN", text = "298"),
    (name = "KEY", fromEnvironment = "TXM_API_KEY"),
  ],
);
