-- Which operator a workspace serves, where several operators share a deployment: session-manager says it. Of two assignments the higher counts.
create table workspaces (
    name       text   primary key,
    operator   text   not null,                     -- '' for a released one
    assignment bigint not null
);
