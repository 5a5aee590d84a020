//! The carried fact table against the published schema it is taken from.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;

/// What is kept of a parameter.
const KEPT: [&str; 13] = [
    "type",
    "optional",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "requires",
    "default_key",
    "alias",
    "keyAlias",
];

fn reduced(parameter: &Value) -> Value {
    let mut kept = Map::new();
    for key in KEPT {
        match (key, parameter.get(key)) {
            (_, None) => {}
            ("format", Some(Value::Object(keys))) => {
                let keys: BTreeMap<&String, Value> =
                    keys.iter().map(|(key, value)| (key, reduced(value))).collect();
                kept.insert(key.to_owned(), serde_json::to_value(keys).unwrap());
            }
            (_, Some(value)) => {
                kept.insert(key.to_owned(), value.clone());
            }
        }
    }
    Value::Object(kept)
}

/// The schema is not carried: `PVE_SCHEMA` names it where it is at hand.
#[test]
fn the_carried_facts_are_those_of_the_schema() {
    let table: Value = serde_json::from_str(include_str!("../../facts/endpoints.json")).unwrap();
    let endpoints = table["endpoints"].as_object().unwrap();
    assert!(endpoints.len() > 50);
    let rights: Value = serde_json::from_str(include_str!("../../facts/rights.json")).unwrap();
    assert_eq!(rights.as_object().unwrap().len(), endpoints.len());
    let Ok(file) = std::env::var("PVE_SCHEMA") else { return };
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut checked = 0;
    for published in schema["endpoints"].as_array().unwrap() {
        let method = published["method"].as_str().unwrap();
        let path = published["path"].as_str().unwrap();
        let Some(carried) = endpoints.get(&format!("{method} {path}")) else { continue };
        let right = &rights[format!("{method} {path}")];
        assert_eq!(right.get("permissions"), published.get("permissions"), "{method} {path}");
        assert_eq!(right.get("protected").is_some(), published.get("protected").is_some());
        assert_eq!(right.get("token"), published.get("allowtoken"), "{method} {path}");
        let parameters = published["parameters"].as_object().unwrap();
        let carried = carried.as_object().unwrap();
        assert_eq!(carried.keys().collect::<Vec<_>>().len(), parameters.len(), "{method} {path}");
        for (name, index) in carried {
            let index = usize::try_from(index.as_u64().unwrap()).unwrap();
            assert_eq!(table["definitions"][index], reduced(&parameters[name]), "{path} {name}");
        }
        checked += 1;
    }
    assert_eq!(checked, endpoints.len());
}
