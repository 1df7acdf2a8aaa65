//! A map of a namespace's messages in two dimensions, for the page.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
    http::Method,
};
use mnemon::{Message, Namespace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::{PathNamespace, Route};
use crate::{
    access::Right,
    app::{self, App},
    bounds,
    problem::Problem,
};

/// Messages on the map, unless the request says otherwise.
const SAMPLE: usize = 500;
const MAX_SAMPLE: usize = 2000;
/// Characters of a message's text.
const TEXT: usize = 160;
/// Characters of a message that are embedded. Only the first chunk of a text counts, and no model's chunk is longer than
/// this.
const EMBEDDED: usize = 16_384;
/// Rounds of power iteration for each direction. With more of them, neighbors on the map do not change.
const ROUNDS: usize = 60;

pub(super) fn routes() -> Vec<Route> {
    let summary = "Returns a sample of a namespace's messages, each with the two principal components of its vector.";
    vec![
        Route::new(Method::GET, "/namespaces/{namespace}/map", Right::Read, summary, map)
            .query::<MapQuery>()
            .answer::<Map>()
            .long(),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MapQuery {
    /// Number of messages, 2 to 2000. Default: 500.
    #[schemars(range(min = 2, max = MAX_SAMPLE))]
    sample: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryMap")]
struct Map {
    points: Vec<Point>,
    /// Messages of the namespace.
    messages: u64,
    /// The share of the sample's variance that each direction has.
    explained: [f32; 2],
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MapPoint")]
struct Point {
    id: String,
    session: String,
    /// The beginning of the text.
    text: String,
    x: f32,
    y: f32,
}

async fn map(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Query(query): Query<MapQuery>,
) -> Result<Json<Map>, Problem> {
    let wanted = query.sample.unwrap_or(SAMPLE);
    if !(2..=MAX_SAMPLE).contains(&wanted) {
        return Err(Problem::bad_request(format!("a sample of {wanted}; give 2 to {MAX_SAMPLE}")));
    }
    let (sample, messages) = sample(&app, &namespace, wanted).await?;
    let embedder = app.engine.embedder();
    let map = app::blocking(move || {
        let texts: Vec<&str> = sample.iter().map(|sampled| &*sampled.embedded).collect();
        let passages = embedder.embed_passages(&texts)?;
        let mut rows: Vec<Vec<f32>> =
            passages.into_iter().filter_map(|windows| Some(windows.into_iter().next()?.vector)).collect();
        let (coordinates, explained) = principal(&mut rows);
        let points = sample.into_iter().zip(coordinates);
        let points = points.map(|(Sampled { id, session, text, .. }, [x, y])| Point { id, session, text, x, y });
        Ok(Map { points: points.collect(), messages, explained })
    });
    map.await.map(Json)
}

/// What the map has of a message.
struct Sampled {
    id: String,
    session: String,
    text: String,
    embedded: String,
}

impl Sampled {
    fn of(message: &Message) -> Self {
        let text = message.text().chars().take(TEXT).collect();
        let embedded = message.searchable().chars().take(EMBEDDED).collect();
        Sampled { id: message.id.clone(), session: message.session.clone(), text, embedded }
    }
}

/// Returns about `wanted` messages with text, spread evenly over the namespace, and the number of all its messages.
async fn sample(app: &App, namespace: &Namespace, wanted: usize) -> Result<(Vec<Sampled>, u64), Problem> {
    let sessions = app.engine.sessions(namespace).await?;
    let messages: u64 = sessions.iter().map(|info| info.messages).sum();
    let step = (messages as usize).div_ceil(wanted).max(1);
    let (mut sample, mut offset) = (Vec::new(), 0);
    for info in sessions {
        // Every `step`th message is taken, and the count goes on from session to session.
        let mut seen = None;
        while offset < info.messages as usize || seen.is_some() {
            let part =
                app.engine.history_after(namespace, &info.session, seen, MAX_SAMPLE, bounds::MAX_PAGE_BYTES).await?;
            let Some(last) = part.last() else { break };
            seen = Some(last.number);
            let number = part.len();
            let spread = part.into_iter().skip(offset).step_by(step).map(|placed| Sampled::of(&placed.message));
            sample.extend(spread.filter(|sampled| !sampled.text.trim().is_empty()));
            let behind = number.saturating_sub(offset).div_ceil(step) * step;
            offset = (offset + behind).saturating_sub(number);
        }
        if seen.is_none() {
            offset = offset.saturating_sub(info.messages as usize);
        }
    }
    Ok((sample, messages))
}

/// Returns the coordinates of rows along their first two principal components, by power iteration, and the share of the
/// variance that each component has.
fn principal(rows: &mut [Vec<f32>]) -> (Vec<[f32; 2]>, [f32; 2]) {
    let dimension = rows.first().map_or(0, Vec::len);
    let mut mean = vec![0.0; dimension];
    for row in rows.iter() {
        mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / rows.len() as f32);
    }
    for row in rows.iter_mut() {
        row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
    }
    let variance = rows.iter().flatten().map(|x| x * x).sum::<f32>().max(f32::MIN_POSITIVE);
    let (mut coordinates, mut explained) = (vec![[0.0; 2]; rows.len()], [0.0; 2]);
    for axis in 0..2 {
        let mut direction: Vec<f32> = (0..dimension).map(|at| 1.0 + (at % 7) as f32).collect();
        for _ in 0..ROUNDS {
            let mut next = vec![0.0; dimension];
            for row in rows.iter() {
                let along = dot(row, &direction);
                next.iter_mut().zip(row).for_each(|(sum, x)| *sum += along * x);
            }
            let length = dot(&next, &next).sqrt();
            if length <= f32::MIN_POSITIVE {
                break;
            }
            direction = next.into_iter().map(|x| x / length).collect();
        }
        for (row, coordinates) in rows.iter_mut().zip(&mut coordinates) {
            let along = dot(row, &direction);
            coordinates[axis] = along;
            explained[axis] += along * along / variance;
            // The next direction is orthogonal to this one, because the rows have nothing left along it.
            row.iter_mut().zip(&direction).for_each(|(x, unit)| *x -= along * unit);
        }
    }
    (coordinates, explained)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_component_is_the_direction_of_most_variance() {
        let mut rows: Vec<Vec<f32>> =
            (0..20).map(|at| vec![1.0 + at as f32, if at % 2 == 0 { 0.5 } else { -0.5 }, 7.0]).collect();
        let (coordinates, explained) = principal(&mut rows);
        let (first, last) = (coordinates[0], coordinates[19]);
        assert!((first[0] - last[0]).abs() > 18.9 && (first[1] - coordinates[1][1]).abs() > 0.8, "{coordinates:?}");
        assert!(explained[0] > 0.98 && explained[0] + explained[1] > 0.999, "{explained:?}");
    }

    #[test]
    fn equal_rows_are_at_one_point() {
        let (coordinates, explained) = principal(&mut vec![vec![0.5; 4]; 3]);
        assert!(
            coordinates.iter().flatten().chain(&explained).all(|x| x.abs() < 1e-3),
            "{coordinates:?} {explained:?}"
        );
        assert_eq!(principal(&mut []), (vec![], [0.0, 0.0]));
    }
}
