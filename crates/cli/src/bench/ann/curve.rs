//! Interpolates queries per second at a given recall between the measured points.

use super::report::Point;

/// Returns the Pareto front: the points that no other beats in both recall and rate, by ascending recall.
fn pareto_front(points: &[Point]) -> Vec<&Point> {
    let mut front: Vec<&Point> = points.iter().collect();
    front.sort_by(|a, b| b.recall.total_cmp(&a.recall).then(b.qps.total_cmp(&a.qps)));
    let mut fastest = 0.0;
    front.retain(|point| {
        let faster = point.qps > fastest;
        fastest = point.qps.max(fastest);
        faster
    });
    front.reverse();
    front
}

/// Returns queries per second at this recall, with the logarithm of the rate interpolated linearly between two points.
/// `None` if no point reaches the recall; the rate of the first point if all are above it.
pub(super) fn qps_at(points: &[Point], recall: f64) -> Option<f64> {
    let front = pareto_front(points);
    let above = front.iter().position(|point| point.recall >= recall)?;
    let b = front[above];
    let Some(a) = above.checked_sub(1).map(|below| front[below]) else { return Some(b.qps) };
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
    fn rates_are_interpolated_by_their_logarithm() {
        let points = [point(0.9, 10_000.0), point(0.96, 500.0), point(1.0, 100.0), point(0.95, 900.0)];
        let at = |recall| qps_at(&points, recall).map(f64::round);
        assert_eq!(at(0.9), Some(10_000.0));
        assert_eq!(at(0.925), Some(3_000.0));
        assert_eq!(at(0.96), Some(500.0));
        assert_eq!(at(0.98), Some((500.0f64 * 100.0).sqrt().round()));
        assert_eq!(at(0.5), Some(10_000.0));
        assert_eq!(qps_at(&points[..2], 0.99), None);
        // A point that another one beats in both does not change the curve.
        let beaten = [point(0.9, 1000.0), point(0.92, 5.0), point(0.95, 800.0)];
        assert!(qps_at(&beaten, 0.92).unwrap() > 800.0);
        assert_eq!(qps_at(&[], 0.9), None);
    }
}
