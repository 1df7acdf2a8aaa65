//! Queries a second at a wanted recall, between the measured points.

use super::report::Point;

/// The points that no other beats in both recall and rate, by recall.
fn best(points: &[Point]) -> Vec<&Point> {
    let mut best: Vec<&Point> = points.iter().collect();
    best.sort_by(|a, b| b.recall.total_cmp(&a.recall).then(b.qps.total_cmp(&a.qps)));
    let mut fastest = 0.0;
    best.retain(|point| {
        let faster = point.qps > fastest;
        fastest = point.qps.max(fastest);
        faster
    });
    best.reverse();
    best
}

/// Queries a second at this recall: the logarithm of the rate is taken as a straight line between two points. `None` if
/// the recall was not reached; the rate of the first point if all are above.
pub(super) fn qps_at(points: &[Point], recall: f64) -> Option<f64> {
    let best = best(points);
    let above = best.iter().position(|point| point.recall >= recall)?;
    let b = best[above];
    let Some(a) = above.checked_sub(1).map(|below| best[below]) else { return Some(b.qps) };
    let share = (recall - a.recall) / (b.recall - a.recall);
    Some((a.qps.ln() + share * (b.qps.ln() - a.qps.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(recall: f64, qps: f64) -> Point {
        Point { effort: 0, recall, qps, p50_us: None, p99_us: None }
    }

    #[test]
    fn between_points_by_the_logarithm() {
        let points = [point(0.9, 10_000.0), point(0.96, 500.0), point(1.0, 100.0), point(0.95, 900.0)];
        let at = |recall| qps_at(&points, recall).map(f64::round);
        assert_eq!(at(0.9), Some(10_000.0));
        assert_eq!(at(0.925), Some(3_000.0));
        assert_eq!(at(0.96), Some(500.0));
        assert_eq!(at(0.98), Some((500.0f64 * 100.0).sqrt().round()));
        assert_eq!(at(0.5), Some(10_000.0));
        assert_eq!(qps_at(&points[..2], 0.99), None);
        // A point that another beats in both does not bend the curve.
        let beaten = [point(0.9, 1000.0), point(0.92, 5.0), point(0.95, 800.0)];
        assert!(qps_at(&beaten, 0.92).unwrap() > 800.0);
        assert_eq!(qps_at(&[], 0.9), None);
    }
}
