//! GPU drivers are tried in a process of their own before this process loads them, because a faulty driver can end the
//! process that loads it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;
use engine::detect::{self, AnyDevice, Choice};
use serde::{Deserialize, Serialize};

use super::ComputeConfig;

/// Largest number of bytes that are kept of what a trial prints.
const PRINTED_MAX: u64 = 64 << 10;
/// Longest last words of a trial in a reason, in characters.
const LAST_WORDS_MAX: usize = 200;
/// Time between two looks at a running trial.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The program whose command `probe-devices` tries drivers.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Allows trials. The program that calls this function must have the command `probe-devices`. In all other programs,
/// such as tests with a node inside, drivers are loaded without a trial.
pub fn allow() {
    if let Ok(program) = std::env::current_exe() {
        PROGRAM.get_or_init(|| program);
    }
}

/// The arguments of the command `probe-devices`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// cuda or wgpu
    kind: Choice,
    /// The operator's choice of devices.
    #[arg(long)]
    backend: Choice,
    /// Folder of compiled kernels.
    #[arg(long)]
    kernel_cache: Option<PathBuf>,
}

/// The result of a trial. The child process prints it as its last line, in JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    /// Number of devices of the kind that compute.
    devices: usize,
    /// Why other devices of the kind, or all of them, do not.
    passed_over: Vec<String>,
}

/// The command `probe-devices`: opens and proves the devices of one kind, and prints a report.
///
/// # Errors
/// When the report cannot be written.
pub fn report(args: ProbeArgs) -> anyhow::Result<()> {
    let ProbeArgs { kind, backend, kernel_cache } = args;
    let only = |other| if other == kind { Ok(()) } else { Err(Vec::new()) };
    let found = detect::detect(backend, kernel_cache.as_deref(), &only);
    let devices = found.devices.iter().filter(|device| !matches!(device, AnyDevice::Cpu(_))).count();
    let report = Report { devices, passed_over: found.passed_over.into_iter().map(|passed| passed.reason).collect() };
    Ok(writeln!(io::stdout(), "\n{}", serde_json::to_string(&report)?)?)
}

/// Tries the driver of one kind of devices.
///
/// # Errors
/// The reasons for which the kind is passed over: the driver ended the trial's process, did not answer in time, or has
/// no device that computes.
pub fn run(config: &ComputeConfig, kernel_cache: Option<&Path>, kind: Choice) -> Result<(), Vec<String>> {
    let Some(program) = PROGRAM.get().filter(|_| !config.driver_trial_s.is_zero()) else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(["probe-devices", kind.name(), "--backend", config.backend.name()]);
    if let Some(folder) = kernel_cache {
        command.arg("--kernel-cache").arg(folder);
    }
    match tried(command, config.driver_trial_s) {
        Ok(Report { devices: 0, passed_over }) => Err(passed_over),
        Ok(_) => Ok(()),
        Err(reason) => Err(vec![reason]),
    }
}

fn tried(mut command: Command, within: Duration) -> Result<Report, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let not_started = |error: io::Error| {
        format!("the process that tries the driver cannot start: {error}; ANGO_DEVICE_PROBE_S=0 turns trials off")
    };
    let mut child = command.spawn().map_err(not_started)?;
    let printed = drained(child.stdout.take());
    let complained = drained(child.stderr.take());
    let Some(status) = ended(&mut child, within).map_err(not_started)? else {
        // A process that waits for a driver may take long to end, so nothing waits for it here.
        let _ = child.kill();
        thread::spawn(move || child.wait());
        let seconds = within.as_secs();
        return Err(format!("the driver did not answer within {seconds} s in a trial (ANGO_DEVICE_PROBE_S)"));
    };
    let report = text(printed).lines().last().and_then(|line| serde_json::from_str(line).ok());
    report.filter(|_| status.success()).ok_or_else(|| {
        let last_words = text(complained);
        let last_words = last_words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        let last_words: String = last_words.chars().take(LAST_WORDS_MAX).collect();
        let colon = if last_words.is_empty() { "" } else { ": " };
        format!("the driver ended the process that tried it ({}){colon}{last_words}", how(status))
    })
}

/// Waits until the process has ended. `None`: it still runs after this time.
fn ended(child: &mut Child, within: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= within {
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Starts a thread that reads a stream to its end. The child process never waits for a reader. The thread returns the
/// last bytes of the stream.
fn drained(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let Some(mut stream) = stream else { return kept };
        while let Ok(1..) = stream.by_ref().take(PRINTED_MAX).read_to_end(&mut kept) {
            kept.drain(..kept.len().saturating_sub(PRINTED_MAX as usize));
        }
        kept
    })
}

fn text(stream: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&stream.join().unwrap_or_default()).into_owned()
}

fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("signal {signal}");
    }
    status.to_string()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_report_is_the_last_line_that_a_trial_prints() {
        let report =
            tried(shell(r#"echo a driver talks; echo '{"devices":2,"passed_over":["card 1"]}'"#), LONG).unwrap();
        assert_eq!((report.devices, &report.passed_over[..]), (2, &["card 1".to_owned()][..]));
    }

    #[test]
    fn every_way_to_end_a_trial_is_a_reason() {
        for (script, reason) in [
            ("kill -SEGV $$", "the driver ended the process that tried it (signal 11)"),
            ("echo first >&2; echo last words >&2; kill -ABRT $$", "(signal 6): last words"),
            ("exit 134", "(exit status: 134)"),
            // a driver that ends the process in good order, before and after a report
            ("exit 0", "(exit status: 0)"),
            (r#"echo '{"devices":1,"passed_over":[]}'; exit 3"#, "(exit status: 3)"),
            ("echo '{\"devices\":'", "(exit status: 0)"),
        ] {
            let found = tried(shell(script), LONG).unwrap_err();
            assert!(found.ends_with(reason), "{script}: {found}");
        }
        let absent = tried(Command::new("/nonexistent/ango"), LONG).unwrap_err();
        assert!(absent.contains("cannot start") && absent.contains("ANGO_DEVICE_PROBE_S=0"), "{absent}");
    }

    #[test]
    fn a_driver_that_hangs_is_given_up() {
        let found = tried(shell("exec sleep 600"), Duration::ZERO).unwrap_err();
        assert_eq!(found, "the driver did not answer within 0 s in a trial (ANGO_DEVICE_PROBE_S)");
    }

    #[test]
    fn a_trial_that_prints_without_end_keeps_the_last_bytes() {
        let script = r#"head -c 5000000 /dev/zero; echo; echo '{"devices":1,"passed_over":[]}'"#;
        assert_eq!(tried(shell(script), LONG).unwrap().devices, 1);
    }
}
