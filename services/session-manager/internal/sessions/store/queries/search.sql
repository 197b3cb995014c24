-- name: SessionsOfOwner :many
select s.id, s.owner_user_id, s.project_id, coalesce(s.label, '')::text as label, s.state,
       coalesce(s.model_override, '')::text as model_override, coalesce(s.max_steps_override, 0)::int as max_steps_override,
       coalesce(s.max_output_tokens_override, 0)::int as max_output_tokens_override, (s.next_ordinal - 1)::bigint as message_count,
       s.created_at, s.updated_at, coalesce(s.issue_number, 0)::bigint as issue_number
from sessions s
where s.owner_user_id = @owner and (s.created_at, s.id) < (@before_at::bigint, @before_id::text)
order by s.created_at desc, s.id desc limit @row_limit;

-- name: ReadByIndex :exec
-- Without statistics of a word the planner assumes that it is frequent.
set local enable_seqscan = off;

-- name: CountHits :one
-- The number of texts with the words, up to the limit. The expression hides the owner from the planner, which else reads all the owner's texts.
select count(*) from (
    select from session_words w where w.words @@ to_tsquery('simple', @query) and w.owner_user_id || '' = @owner limit @row_limit
) hits;

-- name: SearchHits :many
-- For rare words: all matching texts, sorted. source_id is the first matching message, or the session's id if its name matches. An empty
-- project means all.
with found as materialized (
    select distinct on (w.session_created_at, w.session_id) w.session_created_at, w.session_id, w.source_id
    from session_words w
    where w.owner_user_id || '' = @owner and (@project_id::text = '' or w.project_id = @project_id) and w.words @@ to_tsquery('simple', @query)
      and (w.session_created_at, w.session_id) < (@before_at::bigint, @before_id::text)
    order by w.session_created_at desc, w.session_id desc, w.source_id
    limit @row_limit
)
select s.id, s.owner_user_id, s.project_id, coalesce(s.label, '')::text as label, s.state,
       coalesce(s.model_override, '')::text as model_override, coalesce(s.max_steps_override, 0)::int as max_steps_override,
       coalesce(s.max_output_tokens_override, 0)::int as max_output_tokens_override, (s.next_ordinal - 1)::bigint as message_count,
       s.created_at, s.updated_at, coalesce(s.issue_number, 0)::bigint as issue_number, f.source_id
from found f join sessions s on s.id = f.session_id
order by s.created_at desc, s.id desc;

-- name: ReadNewest :exec
set local enable_bitmapscan = off;

-- name: SearchNewest :many
-- SearchHits for frequent words: reads texts, newest session first, until enough match.
with found as materialized (
    select distinct on (w.session_created_at, w.session_id) w.session_created_at, w.session_id, w.source_id
    from session_words w
    where w.owner_user_id = @owner and (@project_id::text = '' or w.project_id = @project_id) and w.words @@ to_tsquery('simple', @query)
      and (w.session_created_at, w.session_id) < (@before_at::bigint, @before_id::text)
    order by w.session_created_at desc, w.session_id desc, w.source_id
    limit @row_limit
)
select s.id, s.owner_user_id, s.project_id, coalesce(s.label, '')::text as label, s.state,
       coalesce(s.model_override, '')::text as model_override, coalesce(s.max_steps_override, 0)::int as max_steps_override,
       coalesce(s.max_output_tokens_override, 0)::int as max_output_tokens_override, (s.next_ordinal - 1)::bigint as message_count,
       s.created_at, s.updated_at, coalesce(s.issue_number, 0)::bigint as issue_number, f.source_id
from found f join sessions s on s.id = f.session_id
order by s.created_at desc, s.id desc;

-- name: FillWords :execrows
with taken as (
    delete from words_to_fill where source_id in
        (select source_id from words_to_fill order by source_id limit @row_limit for update skip locked)
    returning source_id, session_id
)
insert into session_words as old (source_id, session_id, owner_user_id, project_id, session_created_at, words)
select t.source_id, s.id, s.owner_user_id, s.project_id, s.created_at, words_of(coalesce(m.content, s.label, ''))
from taken t join sessions s on s.id = t.session_id left join messages m on m.id = t.source_id
on conflict (source_id) do update set words = excluded.words;
