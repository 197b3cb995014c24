-- Operators' messages that wait for the next step boundary of their session's run, in the order of place. A delivered one is a message.
create table steers (
    id         text   primary key,
    session_id text   not null references sessions (id),
    place      bigint generated always as identity,
    content    text   not null,
    created_at bigint not null
);
create index steers_by_session on steers (session_id, place);
