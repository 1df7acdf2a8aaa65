//! Building blocks of the SVG charts.
//!
//! SVG is written by hand: plotters and others were considered, and bring many dependencies for two charts.

use std::fmt::Write;

use mnemon::escape_xml;

/// Okabe and Ito's palette, which the colour-blind can distinguish too; grey replaces its yellow, which is faint on
/// white.
pub(crate) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];

/// Returns the opening tags and a white background: without it, a viewer with a dark page shows black on black.
pub(crate) fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n",
        escaped(title)
    )
}

pub(crate) fn close(svg: String) -> String {
    svg + "</svg>\n"
}

pub(crate) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, attributes: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {attributes}>{text}</text>");
}

/// Escapes a text for XML. XML 1.0 forbids control characters even when escaped, so they are removed.
fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    escape_xml(&text).into_owned()
}
