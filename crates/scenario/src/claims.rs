//! What a file says about published numbers, claims and open values, checked against what it runs: a name that is
//! nowhere to be found would otherwise be a number that nobody misses.

use std::collections::BTreeMap;

use super::error::{Fault, Mistake};
use super::measurement::columns;
use super::names;
use super::schema::{At, Claim, File, Printed};
use super::tree::{Node, Value};
use super::variant::Variant;
use super::vary;

/// Checks everything that is said beside the runs.
pub(super) fn check(file: &File, root: &Node, variants: &[Variant]) -> Result<(), Fault> {
    let Some(variant) = variants.first() else { return Ok(()) };
    let known = Known { metrics: columns(&variant.config), variants };
    for (n, value) in file.published.iter().flat_map(|published| &published.values).enumerate() {
        let n = n.to_string();
        known.printed(value).map_err(|(key, fault)| fault.key(&["published", "values", &n, key]))?;
    }
    for (name, claim) in &file.expect.0 {
        names::claim(name, claim)?;
        known.claim(claim).map_err(|(key, fault)| fault.key(&["expect", name, key]))?;
    }
    for (key, uncertain) in &file.uncertain.0 {
        if uncertain.why.trim().is_empty() {
            return Err(Fault::value("say why the value is open").key(&["uncertain", key, "why"]));
        }
    }
    uncertain(root)
}

/// The keys that may be drawn, with a list of values each.
fn uncertain(root: &Node) -> Result<(), Fault> {
    for entry in root.get(&["uncertain"]).map_or(&[][..], Node::entries) {
        let keys = vary::split(&entry.key);
        for key in &keys {
            let path: Vec<&str> = key.split('.').collect();
            vary::exists(root, &path).map_err(|fault| fault.site(&entry.key_site))?;
        }
        let values = entry.node.get(&["values"]);
        let Some(Value::List(points)) = values.map(|node| &node.value) else {
            return Err(Fault::value("expected a list of values").key(&["uncertain", &entry.key, "values"]));
        };
        if points.len() < 2 {
            let reason = "a value that is open has at least two choices";
            return Err(Fault::value(reason).key(&["uncertain", &entry.key, "values"]));
        }
        for point in points {
            vary::point(point, keys.len())?;
        }
    }
    Ok(())
}

/// Names that may be used.
struct Known<'a> {
    metrics: Vec<String>,
    variants: &'a [Variant],
}

type Misnamed = (&'static str, Fault);

impl Known<'_> {
    fn printed(&self, value: &Printed) -> Result<(), Misnamed> {
        match (&value.metric, &value.quantity) {
            (Some(metric), None) => self.metric(metric)?,
            (None, Some(_)) => {}
            _ => {
                return Err((
                    "value",
                    Fault::value("give either `metric` or, where no metric is the same, `quantity`"),
                ));
            }
        }
        for (key, name) in [("scheduler", &value.scheduler), ("over", &value.over)] {
            name.iter().try_for_each(|name| names::scheduler(name)).map_err(|fault| (key, fault))?;
        }
        value.cc.iter().try_for_each(|cc| names::controller(cc)).map_err(|fault| ("cc", fault))?;
        self.at(&value.at)
    }

    fn claim(&self, claim: &Claim) -> Result<(), Misnamed> {
        match claim {
            Claim::Rank { metric, at, .. }
            | Claim::Order { metric, at, .. }
            | Claim::Near { metric, at, .. }
            | Claim::Bound { metric, at, .. } => {
                self.metric(metric)?;
                self.at(at)
            }
            Claim::Ratio { metric, at, over_at, over_file, .. } => {
                self.metric(metric)?;
                self.at(at)?;
                // The settings of another file are for that file to know.
                if over_file.is_some() { Ok(()) } else { over_at.iter().try_for_each(|at| self.at(at)) }
            }
            Claim::Monotone { metric, along, .. } => {
                self.metric(metric)?;
                self.varied(along).map(drop).map_err(|fault| ("along", fault))
            }
            Claim::Schedule { sends, .. } => {
                let paths: Vec<&str> = self.variants[0].config.paths.iter().map(|path| path.name.as_str()).collect();
                sends
                    .keys()
                    .try_for_each(|name| names::position("path", name, &paths).map(drop))
                    .map_err(|fault| ("sends", fault))
            }
            Claim::Identical { .. } => Ok(()),
        }
    }

    fn metric(&self, name: &str) -> Result<(), Misnamed> {
        if self.metrics.iter().any(|metric| metric == name) {
            return Ok(());
        }
        let metrics: Vec<&str> = self.metrics.iter().map(String::as_str).collect();
        let help = Fault::unknown(Mistake::Name, "metric", name, &metrics);
        // A hundred names help nobody.
        let help = match help.help.clone() {
            Some(text) if text.starts_with("one of") => help.help("docs/reference/columns.md has all metrics"),
            _ => help,
        };
        Err(("metric", help))
    }

    fn at(&self, at: &At) -> Result<(), Misnamed> {
        let At::Setting(wanted) = at else { return Ok(()) };
        for (key, value) in wanted {
            let values = self.varied(key).map_err(|fault| ("at", fault))?;
            if !values.contains(&value.as_str()) {
                return Err(("at", Fault::unknown(Mistake::Value, &format!("value of `{key}`"), value, &values)));
            }
        }
        let matches = |labels: &[(String, String)]| {
            let labels: BTreeMap<&str, &str> =
                labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            wanted.iter().all(|(key, value)| labels.get(key.as_str()) == Some(&value.as_str()))
        };
        if self.variants.iter().any(|variant| matches(&variant.labels)) {
            return Ok(());
        }
        Err(("at", Fault::value("no setting has all of these values")))
    }

    /// The values of a varied key.
    fn varied(&self, key: &str) -> Result<Vec<&str>, Fault> {
        let mut values: Vec<&str> = Vec::new();
        let labels = self.variants.iter().flat_map(|variant| &variant.labels);
        for (_, value) in labels.filter(|(own, _)| own == key) {
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        if !values.is_empty() {
            return Ok(values);
        }
        let keys: Vec<&str> = self.variants[0].labels.iter().map(|(key, _)| key.as_str()).collect();
        Err(Fault::unknown(Mistake::Key, "varied key", key, &keys))
    }
}
