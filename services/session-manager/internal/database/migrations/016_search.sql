-- Search over the names of sessions and the texts of their messages. Words are filled in after the commit that wrote a text, so that a
-- large message costs its writer nothing; until then it is not found.

create index sessions_by_owner on sessions (owner_user_id, created_at desc, id desc);

-- Texts whose words are not filled in: a message's id, or a session's for its name.
create table words_to_fill (
    source_id  text primary key,
    session_id text not null references sessions (id) on delete cascade
);

create table session_words (
    source_id          text     primary key,      -- as in words_to_fill
    session_id         text     not null references sessions (id) on delete cascade,
    owner_user_id      text     not null,
    project_id         text     not null,
    session_created_at bigint   not null,
    words              tsvector not null
);
create index session_words_words on session_words using gin (words);
-- For frequent words: newest sessions first, without a look at all that have them.
create index session_words_newest on session_words (owner_user_id, session_created_at desc, session_id desc, source_id);

create function text_to_fill() returns trigger language plpgsql as $$
begin
    if tg_table_name = 'messages' then
        insert into words_to_fill (source_id, session_id) values (new.id, new.session_id) on conflict do nothing;
    else
        insert into words_to_fill (source_id, session_id) values (new.id, new.id) on conflict do nothing;
    end if;
    return null;
end $$;
create trigger message_to_fill after insert on messages for each row when (new.content <> '') execute function text_to_fill();
create trigger name_to_fill after insert on sessions for each row when (new.label <> '') execute function text_to_fill();
create trigger rename_to_fill after update of label on sessions for each row when (new.label is distinct from old.label)
    execute function text_to_fill();

-- words_of returns the words of the first 200 KiB of a text. ASCII punctuation parts words, as paths and identifiers are searched by
-- their pieces. Fewer bytes count where a text has too many different words for a tsvector.
create function words_of(body text) returns tsvector language plpgsql immutable as $$
declare
    raw bytea := convert_to(left(body, 204801), 'UTF8');
    n   int   := least(octet_length(raw), 204800);
begin
    loop
        while n > 0 and n < octet_length(raw) and get_byte(raw, n) & 192 = 128 loop
            n := n - 1;
        end loop;
        begin
            return to_tsvector('simple', translate(convert_from(substring(raw from 1 for n), 'UTF8'),
                                                   '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)));
        exception when program_limit_exceeded then
            n := n / 2;
        end;
    end loop;
end $$;

insert into words_to_fill (source_id, session_id)
select id, session_id from messages where content <> '' union all select id, id from sessions where label <> '';
