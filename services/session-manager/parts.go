package sessionmanager

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/bus"
	"kaged.dev/services/session-manager/internal/adapter/framejson"
	harnesscompile "kaged.dev/services/session-manager/internal/adapter/harness_compile"
	harnessrun "kaged.dev/services/session-manager/internal/adapter/harness_run"
	"kaged.dev/services/session-manager/internal/adapter/peers"
	"kaged.dev/services/session-manager/internal/adapter/tools"
	"kaged.dev/services/session-manager/internal/adapter/workspace"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/live"
	"kaged.dev/services/session-manager/internal/core/localconfig"
	"kaged.dev/services/session-manager/internal/core/operator"
	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/core/runs"
	"kaged.dev/services/session-manager/internal/core/sessions"
	attachservice "kaged.dev/services/session-manager/internal/server/attach_service"
	auditservice "kaged.dev/services/session-manager/internal/server/audit_service"
	operatorservice "kaged.dev/services/session-manager/internal/server/operator_service"
	projectservice "kaged.dev/services/session-manager/internal/server/project_service"
	sessionservice "kaged.dev/services/session-manager/internal/server/session_service"
	"kaged.dev/services/session-manager/internal/store"
)

// parts are what there is once the database is open.
type parts struct {
	log      *slog.Logger
	pool     *pgxpool.Pool
	audit    *store.Audit
	operator *operator.Service
	live     *live.Registry
	sessions *sessions.Service

	sessionServer  *sessionservice.Server
	attachServer   *attachservice.Server
	projectServer  *projectservice.Server
	auditServer    *auditservice.Server
	operatorServer *operatorservice.Server
}

// build puts the service together.
func (s *Service) build(pool *pgxpool.Pool) *parts {
	log := s.deps.Log
	config := localconfig.NewFile(s.deps.LocalConfig, s.cfg.MaxScript, log)
	kept := store.NewSessions(pool)
	var conversations *sessions.Service
	registry := projects.New(projects.Deps{
		Store: store.NewProjects(pool), Config: config, Workspace: workspace.New(s.deps.ToolRunner),
		Compiler: harnesscompile.New(s.deps.Harness), Log: log, Version: s.deps.Version,
		Bounds: projects.Bounds{Prompts: s.cfg.MaxPrompts, Files: s.cfg.ProjectFiles, PromptCache: s.cfg.PromptCache},
		Sessions: projects.SessionEnderFunc(func(ctx context.Context, owner, project string) (int, error) {
			return conversations.EndProjectSessions(ctx, owner, project)
		}),
	})
	p := &parts{log: log, pool: pool, audit: store.NewAudit(pool)}
	p.operator = operator.New(operator.Deps{
		Store: store.NewOperator(pool), Config: config, Log: log, LaunchTokenTTL: s.cfg.LaunchTokenTTL.D(),
	})
	p.live = live.NewRegistry(live.Deps{
		Config: s.cfg.live(), Self: s.deps.Self, Store: kept, Stream: s.stream, Projects: registry, Log: log,
		Runs: runs.Deps{
			Harness:  harnessrun.New(s.deps.Harness, s.cfg.HarnessTimeout.D(), s.deps.NoSandbox),
			Renderer: framejson.Renderer{}, Config: config, Log: log,
			HoldBack: s.cfg.HoldBack.D(), CancelGrace: s.cfg.CancelGrace.D(),
			ApprovalTimeout: s.cfg.ApprovalTimeout.D(), Resumptions: s.cfg.ResumeLimit,
		},
	})
	conversations = sessions.New(sessions.Deps{
		Config: sessions.Config{
			MaxContent: s.cfg.MaxContent, RunStarts: s.cfg.RunStarts, StopTimeout: s.cfg.StopTimeout.D(), ToolsTimeout: s.cfg.ToolsTimeout.D(),
			ToolsRetry: s.cfg.SweepInterval.D(),
			AttachWait: s.cfg.AttachWait.D(), Farewell: s.cfg.Farewell.D(),
		},
		Store: kept, Live: p.live, Projects: registry, Tools: tools.New(s.deps.ToolRunner), Peers: peers.New(s.deps.DialAddress),
		Renderer: framejson.Renderer{}, Log: log,
	})
	p.sessions = conversations
	p.sessionServer = sessionservice.New(conversations)
	p.attachServer = attachservice.New(conversations, s.cfg.AttachTimeout.D())
	p.projectServer = projectservice.New(registry)
	p.auditServer = auditservice.New(audit.NewService(p.audit))
	p.operatorServer = operatorservice.New(p.operator)
	return p
}

func (c Config) live() live.Config {
	return live.Config{
		LeaseTTL: c.LeaseTTL.D(), UnloadAfter: c.UnloadAfter.D(), Sweep: c.SweepInterval.D(), LoadTimeout: c.LoadTimeout.D(),
		Settle: c.SettleTimeout.D(), Buffer: c.FrameBuffer, Batch: c.FrameBatch, Flush: c.SeqInterval.D(),
		ResumeFor: c.ResumeTimeout.D(), CutGrace: c.CutGrace.D(), Farewell: c.Farewell.D(),
	}
}

func (c Config) frames() bus.FramesConfig {
	return bus.FramesConfig{Retention: c.FrameRetention.D(), MaxBytes: c.FrameStore, Replicas: c.FrameReplicas}
}

// partitionsEvery is how often the audit record's partitions of the months ahead are made.
const partitionsEvery = 24 * time.Hour

// keepPartitions makes the partitions of the months ahead until ctx ends.
func (p *parts) keepPartitions(ctx context.Context) {
	ticker := time.NewTicker(partitionsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := p.audit.Prepare(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("the audit record's next partitions were not made; trying again tomorrow", "error", err)
		}
	}
}
