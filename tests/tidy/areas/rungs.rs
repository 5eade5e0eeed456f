//! The rungs of the files in each crate, from the lowest to the highest, as ARCHITECTURE.md draws them.

use super::Crate;

pub const CONTROL: Crate = Crate {
    folder: "control/src",
    rungs: &[
        // modules that every area may use
        &[
            "blobs",
            "cache_store",
            "caller",
            "clock",
            "data_dir",
            "fail_point",
            "ids",
            "in_flight",
            "parsers",
            "periodic",
            "probe",
            "resource",
            "sealing",
            "secrets",
            "telemetry",
            "tls",
        ],
        // the areas; `work` is below `billing`, because `billing` has the prices of the engine's operations
        &["web"],
        &["events"],
        &["access"],
        &["work"],
        &["billing"],
        &["compute"],
        &["office"],
        &["docs"],
        // modules that combine the areas into a node
        &["config", "database", "database_clock", "listener"],
        &["admin", "router"],
        &["app"],
        &["cli"],
    ],
    // states of areas, the interface to the engine, and the interface to payment providers
    shared: &["billing::payments", "compute", "compute::bits", "web", "work"],
};

pub const KERNELS: Crate = Crate {
    folder: "kernels/src",
    rungs: &[
        &["bytes", "error"],
        // integer arithmetic that all schemes use
        &["modular"],
        &["conversion", "ring", "security", "xof"],
        // devices, for any scheme
        &["backend"],
        &["cpu::simd"],
        &["cpu", "gpu"],
        &["cuda", "stems", "wgpu"],
        // the schemes; neither uses the other
        &["ckks", "tfhe"],
        &["ckks::cpu", "tfhe::builtin", "tfhe::cpu", "tfhe::mapping"],
        &["ckks::gpu", "tfhe::gpu"],
        // conversion of keys and ciphertexts to bytes and back
        &["tfhe_rs"],
        &["container"],
        &["ckks::container", "schemes"],
        &["detect"],
    ],
    // this file has `Decomposition` and the accumulator, which every kind of arithmetic uses
    shared: &["tfhe::cpu::blind_rotate"],
};

pub const ENGINE: Crate = Crate {
    folder: "engine/src",
    rungs: &[
        // modules that every other module may use
        &["error", "ids", "rows", "slots", "usage"],
        // pure functions: (now, event) -> commands
        &["batch", "fair", "residency", "work"],
        &["scheduler"],
        // only these files know the schemes
        &["task"],
        &["config", "device", "operation", "session"],
        // the only lock around the scheduler
        &["hub"],
    ],
    shared: &[],
};

pub const STORE: Crate = Crate {
    folder: "control/store/src",
    rungs: &[
        &["commits", "statements"],
        // one SQL interface to two databases
        &["database"],
        &["backup", "pages", "schema", "seeds", "tables", "work"],
        // the standing of accounts, which follows from several tables
        &["standing"],
        // tables
        &[
            "accounts",
            "alerts",
            "api_keys",
            "arithmetic_usage",
            "backlog",
            "bursts",
            "ciphertexts",
            "circuits",
            "dropped_objects",
            "encryption_keys",
            "gate_sessions",
            "invoices",
            "jobs",
            "kept_answers",
            "key_materials",
            "key_uploads",
            "lockouts",
            "moves",
            "nodes",
            "operation_counts",
            "operations",
            "outbox",
            "password_links",
            "provider_events",
            "request_counts",
            "running_circuits",
            "server_secret",
            "session_values",
            "sign_ins",
            "signing_keys",
            "subscriptions",
            "trials",
            "usage_bills",
            "user_keys",
            "users",
            "waiting_line",
            "webhooks",
        ],
        &["ledger"],
        &["office"],
        // units of work: each changes several tables, all of them or none
        &["units"],
        // group commit
        &["writers"],
    ],
    // every file may use `lib`, because `lib` has `Store`, and each file adds the methods of its table to `Store`
    shared: &["lib"],
};

pub const CLIENT: Crate = Crate {
    folder: "control/client/src",
    rungs: &[
        &["forecast", "gaussian", "netlists", "value"],
        // secret keys for bits, and the keys and ciphertexts made with them
        &["secret_key"],
        &["bundle", "keygen"],
        // numbers
        &["ckks"],
        &["http"],
        &["evaluate"],
    ],
    shared: &[],
};

pub const API: Crate = Crate {
    folder: "control/api/src",
    rungs: &[
        // parts of bodies
        &["error", "ids", "lists", "money", "numbers", "octets", "pages", "words"],
        &["objects", "params", "seeds"],
        // sections of the API
        &[
            "accounts",
            "billing",
            "ciphertexts",
            "circuits",
            "compute",
            "encryption_keys",
            "gates",
            "health",
            "keys",
            "models",
            "office",
            "sign_in",
            "user_keys",
            "webhooks",
        ],
    ],
    shared: &[],
};

pub const DOCS_MODULE: Crate = Crate {
    folder: "docs-module/src",
    rungs: &[
        &["honorific", "limit"],
        &["audit", "calendar", "csv", "personal_number", "reconcile", "rounding"],
        &["drawing", "registration", "tax"],
        &["document"],
        &["object"],
        // payments that providers report, and payments to payees
        &["payment_import", "payment_record"],
        // request bodies
        &["request"],
    ],
    shared: &[],
};

pub const FLEET: Crate = Crate {
    folder: "control/fleet/src",
    rungs: &[
        &["broker", "lanes"],
        // one interface, two brokers
        &["local", "nats"],
        &["presence"],
        &["message"],
        // pure functions: (now, event) -> what to do
        &["asking", "taking", "warming"],
        &["member"],
        // drive the functions with a broker
        &["asker", "serving"],
    ],
    shared: &[],
};
