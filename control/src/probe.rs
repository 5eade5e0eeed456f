//! Probes a dependency, with a timeout, and at most once in a short time (readings O5).

use std::fmt::Display;
use std::time::{Duration, Instant};

use api::health::HealthStatus;
use tokio::sync::Mutex;

/// Timeout of a probe (specification, Limits).
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a result is cached, so that many health requests do not cause many probes (readings O5).
const BELIEVED: Duration = Duration::from_secs(2);

/// A dependency that can be probed.
pub struct Probe {
    name: &'static str,
    /// If an answer takes longer than this, the dependency is degraded.
    slow: Duration,
    believed: Duration,
    last: Mutex<Option<(Instant, Probed)>>,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// The dependency's state.
    pub status: HealthStatus,
    /// Time to the answer, if one came.
    pub latency_ms: Option<f64>,
    /// Why the dependency is unavailable. Internal details are only in the log.
    pub error: Option<&'static str>,
}

impl Probe {
    /// Creates the probe of a dependency with this name. The dependency is degraded if an answer takes longer than
    /// `slow`.
    pub fn new(name: &'static str, slow: Duration) -> Probe {
        Probe { name, slow, believed: BELIEVED, last: Mutex::default() }
    }

    /// Sets how long results are cached, for dependencies that limit or charge requests.
    pub fn believed_for(self, believed: Duration) -> Probe {
        Probe { believed, ..self }
    }

    /// Returns the dependency's state. Only one probe runs at a time, and other callers wait for its result.
    pub async fn ask<E: Display>(&self, call: impl Future<Output = Result<(), E>>) -> Probed {
        let mut last = self.last.lock().await;
        if let Some((at, probed)) = &*last
            && at.elapsed() < self.believed
        {
            return probed.clone();
        }
        let started = Instant::now();
        let answered = tokio::time::timeout(TIMEOUT, call).await;
        let took = started.elapsed();
        let unavailable = |error| Probed { status: HealthStatus::Unavailable, latency_ms: None, error: Some(error) };
        let probed = match answered {
            Ok(Ok(())) => Probed {
                status: if took <= self.slow { HealthStatus::Healthy } else { HealthStatus::Degraded },
                latency_ms: Some(took.as_micros() as f64 / 1000.0),
                error: None,
            },
            Ok(Err(error)) => {
                tracing::error!(dependency = self.name, cause = %error, "probe failed");
                unavailable("the dependency cannot be reached")
            }
            Err(_) => {
                tracing::error!(dependency = self.name, "probe timed out");
                unavailable("no answer within 2 seconds")
            }
        };
        *last = Some((Instant::now(), probed.clone()));
        probed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn o2_what_answers_is_healthy_what_fails_or_hangs_is_unavailable() {
        let probe = || Probe::new("postgres", Duration::from_millis(500));
        let healthy = probe().ask(async { Ok::<_, String>(()) }).await;
        assert_eq!((healthy.status, healthy.error), (HealthStatus::Healthy, None));
        let down = probe().ask(async { Err("password of host db1 is wrong") }).await;
        assert_eq!((down.status, down.latency_ms), (HealthStatus::Unavailable, None));
        assert!(!down.error.unwrap().contains("db1"));
        let hangs = probe().ask(std::future::pending::<Result<(), String>>()).await;
        assert_eq!(hangs.error, Some("no answer within 2 seconds"));
    }

    #[tokio::test]
    async fn o5_a_flood_of_health_calls_is_one_probe() {
        let probe = Probe::new("postgres", Duration::from_millis(500));
        let mut calls = 0;
        for _ in 0..100 {
            probe
                .ask(async {
                    calls += 1;
                    Ok::<_, String>(())
                })
                .await;
        }
        assert_eq!(calls, 1);
    }
}
