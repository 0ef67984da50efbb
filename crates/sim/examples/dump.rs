//! dev
use weftway_sim::{scenario::Scenario, run::Job, *};
struct P; impl Listener for P { fn note(&mut self, now: weftway_path::Instant, _c: u8, n: &Note) { println!("{:.3} {:?}", now.as_nanos() as f64/1e6, n); } }
fn main(){ let a:Vec<String>=std::env::args().collect(); let sets:Vec<String>=a[5..].to_vec(); let s=Scenario::load(std::path::Path::new(&a[1]),&sets).unwrap();
 let v=&s.variants().unwrap()[0]; let j=Job{config:&v.config,cc:&a[3],seed:a[4].parse().unwrap(),timing:v.timing}; let mut sc=j.timed(weftway_sched::build(&a[2]).unwrap()); j.run(sc.as_mut(), Host::of(&a[2]).unwrap(), vec![Box::new(P)]).unwrap(); }
