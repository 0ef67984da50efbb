//! The store and the writer, without a network.

use super::*;
use crate::tree::writer::Writer;
use std::io::Write as _;
use std::sync::Arc;

fn file(path: &str, size: u64) -> Entry {
    let mtime = 1_700_000_000_123_456_789;
    Entry { path: path.into(), size, mode: 0o640, mtime, dir: false, allocated: size, hash: None }
}

fn folder(path: &str, mode: u32) -> Entry {
    Entry { mode, dir: true, ..file(path, 0) }
}

fn of(entries: impl Into<Vec<Entry>>) -> Manifest {
    Manifest { entries: entries.into() }
}

/// A writer, what it is to be given, and what cannot be written.
type Begun = (Writer, Arc<Layout>, Vec<(u32, String)>);

/// A writer of `manifest` below `target`, and what cannot be written.
fn begin(target: &Path, manifest: &Manifest) -> Result<Begun, StoreError> {
    let store = Arc::new(Store::open(target)?);
    let (mut had, mut failed) = (Vec::new(), Vec::new());
    store.prepare(manifest, &AtomicBool::new(false), |entry, found| {
        failed.extend(found.as_ref().err().map(|error| (had.len() as u32, error.reason())));
        had.push(found.unwrap_or(entry.size));
    })?;
    let layout = Arc::new(Layout::new(manifest, &had));
    let left_out = failed.iter().map(|(at, _)| *at).collect();
    let mut writer = Writer::new(store, Arc::new(manifest.clone()), layout.clone(), left_out, Arc::default());
    writer.settle_whole()?;
    Ok((writer, layout, failed))
}

/// Writes one file, whose hash at the sender is that of `hashed`.
fn write(target: &Path, manifest: &Manifest, bytes: &[u8], hashed: Option<&[u8]>) -> Result<Writer, StoreError> {
    let (mut writer, layout, _) = begin(target, manifest)?;
    let skip = manifest.bytes() - layout.bytes();
    writer.write(&bytes[skip as usize..])?;
    if let Some(hashed) = hashed {
        writer.expect(0, blake3::hash(hashed))?;
    }
    Ok(writer)
}

/// Steps of time: 100 ns, as NTFS has it, and 2 s, as FAT.
#[test]
fn a_file_whose_time_was_cut_short_is_whole() {
    let target = tempfile::tempdir().unwrap();
    let mut store = Store::open(target.path()).unwrap();
    let entry = file("a", 5);
    for (unit, kept) in [(100, 1_700_000_000_123_456_700), (2_000_000_000, 1_700_000_000_000_000_000)] {
        std::fs::write(target.path().join("a"), "hello").unwrap();
        let times = FileTimes::new().set_modified(time(kept));
        File::options().write(true).open(target.path().join("a")).unwrap().set_times(times).unwrap();
        for (time_unit, had) in [(unit, 5), (1, 0)] {
            store.time_unit = time_unit;
            assert_eq!(store.has(&entry, &AtomicBool::new(false)).unwrap(), had);
        }
    }
}

/// Why the first file was left out.
fn failure(mut writer: Writer) -> StoreError {
    writer.take_failures().remove(0).1
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn parts(target: &Path) -> Vec<std::path::PathBuf> {
    let found = std::fs::read_dir(target.join(HIDDEN)).unwrap().map(|item| item.unwrap().path());
    found.filter(|path| path.extension().is_some_and(|ending| ending == "part")).collect()
}

#[test]
fn a_file_has_its_name_when_its_hash_is_right() {
    let target = tempfile::tempdir().unwrap();
    let manifest = of([file("a/b", 5)]);
    let writer = write(target.path(), &manifest, b"hello", None).unwrap();
    assert!(!writer.is_done() && !target.path().join("a/b").exists());
    drop(writer);
    // The whole partial file is there, but nobody has said its hash: it is not taken for granted.
    let mut writer = write(target.path(), &manifest, b"hello", Some(b"other")).unwrap();
    assert_eq!((writer.files(), writer.again(), writer.take_failures().len()), (0, 1, 0));
    assert!(!target.path().join("a/b").exists());
}

/// The folder stands for a mount point. A test has no other file system: the copy is made on the same.
#[test]
fn a_file_gets_its_name_on_another_file_system_by_a_copy_beside_it() {
    let target = tempfile::tempdir().unwrap();
    let store = Store::open(target.path()).unwrap();
    let entry = file("a/b", 5);
    std::fs::create_dir(target.path().join("a")).unwrap();
    // What a receiver left that was killed.
    std::fs::write(target.path().join("a").join(format!(".{}", part_name(&entry))), "hel").unwrap();
    let mut part = store.open_part(&entry).unwrap();
    part.write_all(b"hello").unwrap();
    store.publish_elsewhere(&part, &entry).unwrap();
    assert_eq!(std::fs::read(target.path().join("a/b")).unwrap(), b"hello");
    assert_eq!(mode(&target.path().join("a/b")), 0o640);
    assert_eq!(mtime(&store.dir.symlink_metadata("a/b").unwrap()), entry.mtime);
    assert!(parts(target.path()).is_empty());
    assert_eq!(std::fs::read_dir(target.path().join("a")).unwrap().count(), 1);
    // One that is shorter than it should be gets no name, and stays to be gone on with.
    let longer = file("a/c", 9);
    let mut part = store.open_part(&longer).unwrap();
    part.write_all(b"hello").unwrap();
    assert!(store.publish_elsewhere(&part, &longer).is_err());
    assert_eq!((parts(target.path()).len(), std::fs::read_dir(target.path().join("a")).unwrap().count()), (1, 1));
}

#[test]
fn a_wrong_hash_leaves_nothing() {
    let target = tempfile::tempdir().unwrap();
    let writer = write(target.path(), &of([file("f", 5)]), b"hello", Some(b"hullo")).unwrap();
    assert!(writer.is_done() && parts(target.path()).is_empty() && writer.files() == 0);
    assert!(matches!(failure(writer), StoreError::Hash(name) if name == "f"));
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn what_was_written_is_gone_on_with() {
    let target = tempfile::tempdir().unwrap();
    let manifest = of([file("f", 5)]);
    begin(target.path(), &manifest).unwrap().0.write(b"hel").unwrap();
    let look = |manifest: &Manifest| manifest.bytes() - begin(target.path(), manifest).unwrap().1.bytes();
    assert_eq!(look(&manifest), 3);
    let changed = of([Entry { mtime: 1, ..file("f", 5) }]);
    assert_eq!(look(&changed), 0, "another file of this name");
    let mut writer = write(target.path(), &manifest, b"hello", Some(b"hello")).unwrap();
    assert!(writer.is_done());
    writer.finish().unwrap();
    drop(writer);
    assert_eq!(std::fs::read(target.path().join("f")).unwrap(), b"hello");
    let meta = std::fs::metadata(target.path().join("f")).unwrap();
    assert_eq!((meta.permissions().mode() & 0o777, meta.modified().unwrap()), (0o640, time(file("f", 5).mtime)));
    assert!(!target.path().join(HIDDEN).exists());
}

#[test]
fn no_link_leads_out_of_the_target() {
    let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), target.path().join("link")).unwrap();
    let (_, layout, failed) = begin(target.path(), &of([file("link/f", 1)])).unwrap();
    assert_eq!((layout.bytes(), failed.len()), (0, 1));
    // A link in place of the file is replaced, not followed.
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "old").unwrap();
    std::os::unix::fs::symlink(&victim, target.path().join("f")).unwrap();
    write(target.path(), &of([file("f", 1)]), b"x", Some(b"x")).unwrap();
    assert_eq!(std::fs::read(target.path().join("f")).unwrap(), b"x");
    assert_eq!(std::fs::read(&victim).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn what_is_there_is_not_sent() {
    let target = tempfile::tempdir().unwrap();
    let manifest = of([file("f", 5)]);
    write(target.path(), &manifest, b"hello", Some(b"hello")).unwrap();
    assert_eq!(begin(target.path(), &manifest).unwrap().1.bytes(), 0);
}

#[test]
fn what_cannot_be_written_is_left_out_and_the_rest_arrives() {
    let target = tempfile::tempdir().unwrap();
    std::fs::create_dir(target.path().join("taken")).unwrap();
    std::fs::write(target.path().join("wall"), "").unwrap();
    let long = "n".repeat(256);
    let names = ["good", "taken", &long, "wall", "wall/below"];
    let mut entries: Vec<Entry> = names.iter().map(|name| file(name, 2)).collect();
    entries[3] = folder("wall", 0o755);
    let (mut writer, layout, failed) = begin(target.path(), &of(entries)).unwrap();
    assert_eq!(failed.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 2, 3, 4], "{failed:?}");
    assert_eq!(layout.bytes(), 2, "what cannot be written is not sent");
    writer.write(b"ok").unwrap();
    writer.expect(0, blake3::hash(b"ok")).unwrap();
    assert!(writer.is_done());
    writer.finish().unwrap();
    assert_eq!((writer.files(), writer.take_failures().len()), (1, 0));
    assert_eq!(std::fs::read(target.path().join("good")).unwrap(), b"ok");
}

#[test]
fn a_name_that_is_taken_meanwhile_costs_this_file_only() {
    let target = tempfile::tempdir().unwrap();
    let (mut writer, ..) = begin(target.path(), &of([file("a", 2), file("b", 2)])).unwrap();
    std::fs::create_dir(target.path().join("a")).unwrap();
    for (at, bytes) in [(0, b"aa"), (1, b"bb")] {
        writer.write(bytes).unwrap();
        writer.expect(at, blake3::hash(bytes)).unwrap();
    }
    assert!(writer.is_done());
    assert_eq!((writer.files(), std::fs::read(target.path().join("b")).unwrap()), (1, b"bb".to_vec()));
    assert!(matches!(failure(writer), StoreError::Disk(name, _) if name == "a"));
}

#[test]
fn a_file_that_the_sender_cannot_read_is_left_out_unless_its_hash_was_told() {
    for (hash_first, expected) in [(true, 2), (false, 1)] {
        for written_first in [true, false] {
            let target = tempfile::tempdir().unwrap();
            let (mut writer, ..) = begin(target.path(), &of([file("a", 2), file("b", 2)])).unwrap();
            if written_first {
                writer.write(b"aa").unwrap();
            }
            if hash_first {
                writer.expect(0, blake3::hash(b"aa")).unwrap();
            }
            writer.give_up(0).unwrap();
            writer.write(if written_first { b"bb" } else { b"aabb" }).unwrap();
            writer.expect(1, blake3::hash(b"bb")).unwrap();
            assert!(writer.is_done());
            assert_eq!(writer.files(), expected, "{hash_first} {written_first}");
            assert_eq!(parts(target.path()).len(), 0);
        }
    }
}

#[test]
fn one_receiver_at_a_time_writes_into_a_target() {
    let target = tempfile::tempdir().unwrap();
    let first = Store::open(target.path()).unwrap();
    let link = target.path().with_extension("link");
    std::os::unix::fs::symlink(target.path(), &link).unwrap();
    for path in [target.path(), &link] {
        let refused = Store::open(path).err().unwrap().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    }
    std::fs::remove_file(&link).unwrap();
    drop(first);
    // A lock file that a process left behind when it was killed is nobody's lock.
    std::fs::create_dir_all(target.path().join(HIDDEN)).unwrap();
    std::fs::write(target.path().join(HIDDEN).join(lock::LOCK), "1\n").unwrap();
    drop(Store::open(target.path()).unwrap());
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn what_another_program_did_to_a_partial_file_is_not_published() {
    for longer in [true, false] {
        let target = tempfile::tempdir().unwrap();
        let mut writer = write(target.path(), &of([file("f", 5)]), b"hello", None).unwrap();
        let part = parts(target.path()).remove(0);
        if longer {
            std::fs::OpenOptions::new().append(true).open(&part).unwrap().write_all(b"more").unwrap();
        } else {
            std::fs::write(part.with_extension("new"), "HELLO").unwrap();
            std::fs::rename(part.with_extension("new"), &part).unwrap();
        }
        writer.expect(0, blake3::hash(b"hello")).unwrap();
        assert!(matches!(failure(writer), StoreError::Taken(..)));
        assert!(!target.path().join("f").exists());
    }
}

#[test]
fn what_is_not_complete_is_private() {
    let target = tempfile::tempdir().unwrap();
    let hidden = target.path().join(HIDDEN);
    std::fs::create_dir(&hidden).unwrap();
    std::fs::set_permissions(&hidden, Permissions::from_mode(0o755)).unwrap();
    let entries = [folder("d", 0o755), Entry { mode: 0o644, ..file("d/f", 5) }];
    let (mut writer, ..) = begin(target.path(), &of(entries.clone())).unwrap();
    writer.write(b"hel").unwrap();
    let found = [&hidden, &target.path().join("d"), &parts(target.path())[0]].map(|path| mode(path));
    assert_eq!(found, [0o700, 0o700, 0o600]);
    // So it is when the transfer was interrupted; and what an earlier version left is made so.
    drop(writer);
    std::fs::set_permissions(&parts(target.path())[0], Permissions::from_mode(0o644)).unwrap();
    let (mut writer, ..) = begin(target.path(), &of(entries)).unwrap();
    writer.write(b"l").unwrap();
    assert_eq!((mode(&parts(target.path())[0]), mode(&target.path().join("d"))), (0o600, 0o700));
    writer.write(b"o").unwrap();
    writer.expect(1, blake3::hash(b"hello")).unwrap();
    writer.finish().unwrap();
    assert_eq!((mode(&target.path().join("d")), mode(&target.path().join("d/f"))), (0o755, 0o644));
}

#[test]
fn a_folder_that_is_read_only_at_the_sender_is_filled_and_then_read_only() {
    let target = tempfile::tempdir().unwrap();
    for round in 0..2_i64 {
        // The second time it is there, and nothing may be written into it.
        let entries = [folder("d", 0o555), folder("d/e", 0o500), Entry { mtime: round, ..file("d/e/f", 2) }];
        let (mut writer, ..) = begin(target.path(), &of(entries)).unwrap();
        assert_eq!(mode(&target.path().join("d/e")), 0o700);
        writer.write(b"ok").unwrap();
        writer.expect(2, blake3::hash(b"ok")).unwrap();
        writer.finish().unwrap();
        assert_eq!((mode(&target.path().join("d")), mode(&target.path().join("d/e"))), (0o555, 0o500));
        assert_eq!((writer.files(), writer.take_failures().len()), (1, 0), "round {round}");
    }
    // So that it can be removed.
    for path in ["d", "d/e"] {
        std::fs::set_permissions(target.path().join(path), Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn holes_stay_holes() {
    use std::os::unix::fs::MetadataExt as _;
    let target = tempfile::tempdir().unwrap();
    let size = 8 << 20;
    let mut bytes = vec![0; size];
    // Data across the border of two blocks, and a hole at the end.
    bytes[1 << 20..(1 << 20) + 10_000].fill(7);
    let blocks = |allocated| {
        let manifest = of([Entry { allocated, ..file("f", size as u64) }]);
        let (mut writer, ..) = begin(target.path(), &manifest).unwrap();
        // In parts of any size.
        bytes.chunks(77_777).for_each(|part| writer.write(part).unwrap());
        writer.expect(0, blake3::hash(&bytes)).unwrap();
        assert_eq!(writer.files(), 1);
        assert!(std::fs::read(target.path().join("f")).unwrap() == bytes);
        let blocks = std::fs::metadata(target.path().join("f")).unwrap().blocks();
        std::fs::remove_file(target.path().join("f")).unwrap();
        blocks
    };
    let (full, sparse) = (blocks(size as u64), blocks(12_288));
    assert!(sparse * 20 < full, "{sparse} of {full} blocks of 512 bytes");
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let target = tempfile::tempdir().unwrap();
    let store = Store::open(target.path()).unwrap();
    let system = fstatvfs(&store.dir).unwrap();
    let size = system.f_bfree * system.f_frsize + (1 << 30);
    let check = |entry: Entry| {
        let manifest = of([entry]);
        store.check_room(&manifest, &Layout::new(&manifest, &[]))
    };
    assert!(matches!(check(file("f", size)), Err(StoreError::Room { needed, .. }) if needed == size));
    check(Entry { allocated: 4096, ..file("sparse", size) }).unwrap();
}

#[test]
fn what_was_kept_and_is_not_the_senders_is_fetched_again() {
    let target = tempfile::tempdir().unwrap();
    let manifest = of([file("f", 5), file("g", 2)]);
    begin(target.path(), &manifest).unwrap().0.write(b"hel").unwrap();
    // A disk errs.
    std::fs::write(&parts(target.path())[0], b"hul").unwrap();
    let (mut writer, layout, _) = begin(target.path(), &manifest).unwrap();
    assert_eq!(layout.bytes(), 4);
    writer.write(b"lome").unwrap();
    writer.expect(0, blake3::hash(b"hello")).unwrap();
    writer.expect(1, blake3::hash(b"me")).unwrap();
    assert!(writer.is_done());
    assert_eq!((writer.files(), writer.again(), writer.take_failures().len()), (1, 1, 0));
    drop(writer);
    let (mut writer, layout, _) = begin(target.path(), &manifest).unwrap();
    assert_eq!(layout.bytes(), 5, "all of it, and nothing else");
    writer.write(b"hello").unwrap();
    writer.expect(0, blake3::hash(b"hello")).unwrap();
    assert_eq!((writer.files(), writer.again()), (2, 0));
    assert_eq!(std::fs::read(target.path().join("f")).unwrap(), b"hello");
}

#[test]
fn old_partial_files_of_other_transfers_are_removed() {
    let target = tempfile::tempdir().unwrap();
    let manifest = of([file("f", 5)]);
    begin(target.path(), &manifest).unwrap().0.write(b"hel").unwrap();
    let now = SystemTime::now();
    let age = |path: &Path, days: u64| {
        let at = now - Duration::from_secs(days * 86_400);
        File::options().write(true).open(path).unwrap().set_times(FileTimes::new().set_modified(at)).unwrap();
    };
    age(&parts(target.path())[0], 30);
    let hidden = target.path().join(HIDDEN);
    for (name, days) in [("old.part", 8), ("young.part", 6), ("old.other", 8)] {
        std::fs::write(hidden.join(name), "1234").unwrap();
        age(&hidden.join(name), days);
    }
    let store = Store::open(target.path()).unwrap();
    assert_eq!(store.remove_old_parts(&manifest, now).unwrap(), (1, 4));
    assert!(!hidden.join("old.part").exists());
    assert_eq!(parts(target.path()).len(), 2, "that of this transfer, and the young one");
    assert!(hidden.join("old.other").exists());
}

#[test]
fn a_folder_gets_its_time() {
    let target = tempfile::tempdir().unwrap();
    let entries = [folder("d", 0o500), folder("d/e", 0o755), file("d/e/f", 2)];
    let (mut writer, ..) = begin(target.path(), &of(entries.clone())).unwrap();
    writer.write(b"ok").unwrap();
    writer.expect(2, blake3::hash(b"ok")).unwrap();
    writer.finish().unwrap();
    assert_eq!(writer.take_failures().len(), 0);
    for entry in &entries {
        let there = std::fs::metadata(target.path().join(&entry.path)).unwrap();
        assert_eq!(there.modified().unwrap(), time(entry.mtime), "{}", entry.path);
    }
    std::fs::set_permissions(target.path().join("d"), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn contents_are_compared_where_the_manifest_has_a_hash() {
    let target = tempfile::tempdir().unwrap();
    write(target.path(), &of([file("f", 5)]), b"hello", Some(b"hello")).unwrap();
    let hashed = |bytes: &[u8], mtime| {
        let entry = file("f", 5);
        of([Entry { hash: Some(blake3::hash(bytes).to_hex().to_string()), mtime, ..entry }])
    };
    // Size and time are the same, the contents are not.
    let same_time = file("f", 5).mtime;
    assert_eq!(begin(target.path(), &hashed(b"hullo", same_time)).unwrap().1.bytes(), 5);
    // The contents are the same, and the time becomes so.
    let (writer, layout, _) = begin(target.path(), &hashed(b"hello", 1_000_000_000)).unwrap();
    assert_eq!((layout.bytes(), writer.files()), (0, 1));
    assert_eq!(std::fs::metadata(target.path().join("f")).unwrap().modified().unwrap(), time(1_000_000_000));
}

#[test]
fn where_the_target_is_stays_here() {
    let path = "/home/somebody/inbox".to_owned();
    let denied = || io::Error::from(ErrorKind::PermissionDenied);
    for error in [
        StoreError::Room { target: path.clone(), needed: 2, free: 1 },
        StoreError::Disk(path.clone(), denied()),
        StoreError::Locked(path.clone(), "process 1".to_owned()),
    ] {
        assert!(error.to_string().contains(&path), "{error}");
        assert!(!error.told().contains(&path), "{}", error.told());
    }
    assert!(StoreError::Disk("photos/a".to_owned(), denied()).told().contains("photos/a"));
}

#[test]
fn what_is_no_folder_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str| Store::open(&dir.path().join(name)).map(|_| ()).unwrap_err().to_string();
    std::fs::write(dir.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink("gone", dir.path().join("link")).unwrap();
    assert!(refused("file").ends_with("/file: this is there, and is no folder"), "{}", refused("file"));
    assert!(refused("link").ends_with("/link: this is a link to nothing"), "{}", refused("link"));
    for name in ["first", "second"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join("first").join(HIDDEN), "").unwrap();
    // It leads out of the target: nothing is written there.
    std::os::unix::fs::symlink("../first", dir.path().join("second").join(HIDDEN)).unwrap();
    for name in ["first", "second"] {
        let told = refused(name);
        assert!(told.ends_with("/.weft-partial: this is there, and is no folder"), "{told}");
        assert!(told.contains(name), "{told}");
    }
}

/// FAT answers EPERM to a mode that it cannot keep, and other systems that they know of none.
#[test]
fn a_file_system_without_permissions_costs_no_file() {
    let answer = |number| if_it_has_any(Err(std::io::Error::from_raw_os_error(number))).is_ok();
    let errors =
        [rustix::io::Errno::PERM, rustix::io::Errno::OPNOTSUPP, rustix::io::Errno::NOSYS, rustix::io::Errno::IO];
    assert_eq!(errors.map(|error| answer(error.raw_os_error())), [true, true, true, false]);
}

/// As where `A` and `a` are one file: the second name is refused, and the first may come again.
#[test]
fn names_that_the_file_system_takes_for_one_do_not_replace_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    assert!(store.names.is_none(), "they are told apart here");
    store.names = Some(Mutex::default());
    std::fs::write(dir.path().join("a"), "").unwrap();
    let there = store.dir.symlink_metadata("a").unwrap();
    store.names().unwrap().keep("a", &there);
    let mut names = store.names().unwrap();
    let answers = ["a", "A"].map(|path| names.check(path, &there).is_ok());
    assert_eq!(answers, [true, false]);
    std::fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
    assert!(names.check("b", &store.dir.symlink_metadata("b").unwrap()).is_ok());
    names.keep("b", &there);
    drop(names);
}
