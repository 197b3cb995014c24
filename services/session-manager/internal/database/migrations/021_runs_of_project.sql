-- The last runs of a project, and those of a day.
create index runs_of_project on runs (owner_user_id, project_id, created_at desc, id desc);
