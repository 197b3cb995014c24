// Package projects is the context of projects: the registry, their approved versions and their prompts.
package projects

import (
	"log/slog"

	"google.golang.org/grpc"

	"kaged.dev/pkg/postgres/database"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/projects/server"
	"kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sagas/core/unregister"
)

// Deps are the dependencies of the context. Every field except Root is required.
type Deps struct {
	DB        database.DB
	Log       *slog.Logger
	Local     localconfig.Source
	Workspace projects.Workspace
	// Places has the workspaces of operators. Root is the folder that must contain all projects there, "" for no
	// restriction.
	Places projects.Places
	Root   string
	// Changed receives each stored change of a project; the state is "" if it is not known.
	Changed func(owner, id string, state projects.State)
	// Audited receives the records that were stored with a change.
	Audited func(records ...audit.Record)
	// Build is the version with its commit; snapshots of another build are compiled again.
	Build string
}

// Projects is the context.
type Projects struct {
	// Registry has the projects, for the other contexts.
	Registry *projects.Service
}

// New returns the context. It starts no goroutine.
func New(cfg Config, deps Deps) *Projects {
	kept := store.NewProjects(deps.DB)
	return &Projects{projects.New(projects.Deps{
		Registry:  told{kept, deps.Changed, deps.Audited},
		Approvals: kept, Contents: kept, History: kept, Config: deps.Local,
		Workspace: deps.Workspace, Places: deps.Places, Root: deps.Root,
		Log: deps.Log, Build: deps.Build,
		Bounds: projects.Bounds{Prompts: cfg.MaxPrompts, Files: cfg.ProjectFiles, PromptCache: cfg.PromptCache},
	})}
}

// Register adds the context's services. The saga unregisters projects.
func (p *Projects) Register(r grpc.ServiceRegistrar, unregister *unregister.Saga) {
	sessionmanagerv1.RegisterProjectServiceServer(r, server.New(p.Registry, unregister))
	sessionmanagerv1.RegisterDslServiceServer(r, server.NewDSL(p.Registry))
	sessionmanagerv1.RegisterRegistryServiceServer(r, server.NewRegistry(p.Registry))
}
