-- compatible_from: 31
-- Many records repeat a large part: the first request of each session has the list of tools, 20 KB. Such a part is kept once in each month,
-- so that the parts of old months can be dropped with their records: the id of a part begins with the month, as in 202611:. A program of an
-- earlier version shows the reference in place of the part.
create table audit_parts (
    id   text not null primary key,
    body text not null -- JSON; as jsonb it would be parsed for each record that refers to it
);
create trigger audit_parts_append_only before update or delete on audit_parts
    for each row execute function audit_refuse_change();
select audit_seal('audit_parts');

-- part is the id of a record's part, part_at its index in the payload's list new_items.
alter table audit add column part text, add column part_at int;
