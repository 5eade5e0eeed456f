//! `ango serve`: runs a node until it receives a signal to stop.

use std::io::IsTerminal;

use anyhow::Context;
use tokio::signal;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::app::{App, Running, WorkerNode};
use crate::config::{Config, LogConfig, NodeRole};

/// Runs a node until Ctrl-C or SIGTERM, then waits until running requests have finished, which may take as long as a
/// request's deadline. A second signal ends the process at once.
pub async fn run(config: Config) -> anyhow::Result<()> {
    start_log(&config.log)?;
    let mut signals = StopSignals::listen()?;
    if config.fleet.role == NodeRole::Worker {
        return run_worker(&config, signals).await;
    }
    let node = App::start(config).await?;
    announce(&node);
    if let Some(link) = node.first_setup_link().await? {
        println!();
        println!("This link creates the first administrator of the dashboard. The link works for a day:");
        match std::io::stdout().is_terminal() {
            true => println!("  {}", *link),
            // do not print the link, because this output may go to the log of a container or service, which more people
            // can read
            false => println!("  the link is in the file {}", node.keep_setup_link(&link)?.display()),
        }
    }
    signals.next().await;
    eprintln!("the node stops when the running requests have finished; a second signal stops the node at once");
    tokio::select! {
        () = node.shutdown() => Ok(()),
        () = signals.next() => {
            eprintln!("ango: stopped at once; some requests did not finish");
            // Exit here: to return an error would first drop the runtime. The runtime would wait for blocking work, and
            // tasks cancelled by the drop would log errors.
            std::process::exit(1)
        }
    }
}

/// Runs a worker of a fleet until a signal to stop, then waits until its work has ended, at most 10 minutes. A second signal
/// ends the process at once; other workers then compute its work again.
async fn run_worker(config: &Config, mut signals: StopSignals) -> anyhow::Result<()> {
    let node = WorkerNode::start(config, None).await?;
    let (backend, device) = node.device();
    println!("ango {}", env!("CARGO_PKG_VERSION"));
    println!("  role     worker of the fleet {}", config.fleet.name);
    println!("  metrics  http://{}/metrics", node.metrics_addr);
    println!("  data     {}", config.data_dir.display());
    println!("  backend  {backend} on {device}");
    tokio::select! {
        () = signals.next() => {}
        () = node.asked_to_leave() => {}
    }
    eprintln!("the worker stops when its work has ended; a second signal stops it at once");
    tokio::select! {
        () = node.shutdown() => Ok(()),
        () = signals.next() => {
            eprintln!("ango: stopped at once; other workers compute the unfinished work again");
            // as above
            std::process::exit(1)
        }
    }
}

/// Prints the information about the started node that a person at the terminal needs first.
fn announce(node: &Running) {
    let config = node.config();
    println!("ango {}", env!("CARGO_PKG_VERSION"));
    println!("  API      http://{}", node.api_addr);
    println!("  docs     {}/docs  (also /redoc, /openapi.json)", node.base_url);
    println!("  metrics  http://{}/metrics", node.metrics_addr);
    println!("  data     {}", config.data_dir.display());
    println!("  backend  {} on {}", node.backend, node.device_name);
    if !node.has_api_keys {
        println!();
        println!("There is no API key yet. Make one, while the node runs, with");
        println!(
            "  ango admin create-key --data-dir {} --role account_admin --environment live",
            config.data_dir.display()
        );
    }
}

/// Starts the log on stderr.
///
/// # Errors
/// When the log was started before.
pub fn start_log(log: &LogConfig) -> anyhow::Result<()> {
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let lines = if log.json { lines.json().flatten_event(true).boxed() } else { lines.boxed() };
    let started = tracing_subscriber::registry().with(lines).with(log.filter.clone()).try_init();
    started.context("the log cannot start")
}

/// Receives the signals Ctrl-C and SIGTERM. From the call of `listen` on, these signals no longer end the process by
/// themselves.
struct StopSignals {
    #[cfg(unix)]
    terminate: signal::unix::Signal,
    #[cfg(unix)]
    interrupt: signal::unix::Signal,
}

impl StopSignals {
    fn listen() -> anyhow::Result<StopSignals> {
        Ok(StopSignals {
            #[cfg(unix)]
            terminate: signal::unix::signal(signal::unix::SignalKind::terminate())?,
            #[cfg(unix)]
            interrupt: signal::unix::signal(signal::unix::SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = signal::ctrl_c().await;
    }
}
