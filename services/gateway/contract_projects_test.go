package gateway_test

import (
	"google.golang.org/protobuf/proto"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// projectsContract has the routes of projects.
func projectsContract() []exchange {
	project := &apiv1.RegisteredProject{
		Id: "music-site", Path: "/p", State: apiv1.ProjectState_PROJECT_STATE_READY, RegisteredAt: 1716300000000,
	}
	const projectJSON = `{"id":"music-site","path":"/p","label":null,"state":"ready","registered_at":1716300000000,` +
		`"diagnostics":[]}`
	return []exchange{
		{
			"GET /api/v1/projects", "GET", "/api/v1/projects?limit=2&cursor=c&unknown=x", "",
			&apiv1.ListProjectsRequest{Limit: 2, Cursor: "c"}, &apiv1.ListProjectsResponse{
				Items: []*apiv1.ProjectSummary{
					{
						Id: "music-site", Path: "/p", Label: proto.String("L"), State: apiv1.ProjectState_PROJECT_STATE_PENDING,
						SessionCount: 3,
					},
				},
				HasMore: true, NextCursor: proto.String("d"),
			},
			200,
			`{"items":[{"id":"music-site","path":"/p","label":"L","description":"","last_opened_at":null,"state":"pending",` +
				`"session_count":3}],"next_cursor":"d","has_more":true}`,
		},
		{
			"POST /api/v1/projects/load", "POST", "/api/v1/projects/load", `{"path":"/p","label":"x","nickname":"y"}`,
			&apiv1.LoadProjectRequest{Path: "/p"}, &apiv1.LoadProjectResponse{Project: project, Created: true}, 201, projectJSON,
		},
		{
			"GET /api/v1/projects/{id}", "GET", "/api/v1/projects/music-site", "",
			&apiv1.GetProjectRequest{Id: "music-site"}, &apiv1.GetProjectResponse{
				Project: &apiv1.Project{Id: "music-site", ResolvedAliases: map[string]string{"b": "p:m", "a": "p:n"}},
			},
			200,
			`{"id":"music-site","path":"","label":null,"description":"","state":"unspecified","registered_at":0,` +
				`"last_opened_at":null,"dsl_version":0,` +
				`"resolved_aliases":{"a":"p:n","b":"p:m"},"active_plugins":[],"session_count":0,"diagnostics":[]}`,
		},
		{
			"GET /api/v1/projects/{id}/capabilities", "GET", "/api/v1/projects/music-site/capabilities", "",
			&apiv1.GetProjectCapabilitiesRequest{Id: "music-site"}, &apiv1.GetProjectCapabilitiesResponse{
				Filesystem: &apiv1.FilesystemCapabilities{Mode: "isolated", Mounts: []string{"project:/src", "project:/.kaged"}},
				Network:    &apiv1.NetworkCapabilities{Mode: "disabled"},
				Tools:      &apiv1.ToolCapabilities{Enabled: []string{"file.read"}, Disabled: []string{"file.write"}},
			},
			200,
			`{"filesystem":{"mode":"isolated","mounts":["project:/src","project:/.kaged"]},"network":{"mode":"disabled",` +
				`"allowlist":[]},` +
				`"tools":{"enabled":["file.read"],"disabled":["file.write"]},"agents":[]}`,
		},
		{
			"POST /api/v1/projects/{id}/reload", "POST", "/api/v1/projects/music-site/reload", "",
			&apiv1.ReloadProjectRequest{Id: "music-site"}, &apiv1.ReloadProjectResponse{Project: project}, 200, projectJSON,
		},
		{
			"DELETE /api/v1/projects/{id}", "DELETE", "/api/v1/projects/music-site?confirm=true", "",
			&apiv1.UnregisterProjectRequest{Id: "music-site", Confirm: true},
			&apiv1.UnregisterProjectResponse{Id: "music-site", Path: "/p", SessionsEnded: 1, UnregisteredAt: 5},
			200, `{"id":"music-site","path":"/p","sessions_ended":1,"unregistered_at":5}`,
		},
		{
			"POST /api/v1/projects/{project_id}/language-servers/restart", "POST",
			"/api/v1/projects/demo/language-servers/restart", `{"lang":"go"}`,
			&apiv1.RestartLanguageServersRequest{ProjectId: "demo", Lang: "go"},
			&apiv1.RestartLanguageServersResponse{Servers: languageServers}, 200, languageServersJSON,
		},
	}
}
