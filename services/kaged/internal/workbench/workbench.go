// Package workbench runs tools without a daemon: the tool runner and the services it needs, private to this process,
// for one command. They are the services of a daemon, started by the same host, without the stores, which these
// services do not use.
//
// Goroutines: those of the services, which end before [Bench.Close] returns.
package workbench

import (
	"context"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/pkg/version"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Options are the settings of a bench.
type Options struct {
	// ConfigPath is local.toml.
	ConfigPath ownpath.Path
	// DataDir is the folder for the journal of file changes, from which unfinished changes of a killed process are undone;
	// the zero Path if no file will be changed.
	DataDir ownpath.Path
	// Root is the project's folder, absolute.
	Root string
	// Getenv reads the environment.
	Getenv func(string) string
	// Stderr receives warnings.
	Stderr io.Writer
	// Modules are the available services; a bench runs those it needs.
	Modules []host.Module
}

// Bench runs the tools of one project. One goroutine at a time may use it.
type Bench struct {
	*process
	root    string
	session string
	tools   toolrunnerv1.ToolRunnerServiceClient
}

// Open starts a bench. It fails with bad_request for a configuration that cannot be used.
func Open(opts Options) (*Bench, error) {
	p, err := launch(opts, config.True(opts.Getenv("KAGED_NO_SANDBOX")), mtls.WorkspaceServices()...)
	if err != nil {
		return nil, err
	}
	return &Bench{
		process: p, root: opts.Root, session: ident.New(),
		tools: toolrunnerv1.NewToolRunnerServiceClient(p.host.Dial("tool-runner")),
	}, nil
}

// process has the running services of a command.
type process struct {
	opts   Options
	file   *config.File
	host   *host.Host
	cancel context.CancelFunc
	ended  chan error
}

// launch starts services by name, private to this process, and returns when they have started.
func launch(opts Options, noSandbox bool, names ...string) (*process, error) {
	file, err := config.Load(opts.ConfigPath.String())
	if err != nil {
		return nil, err
	}
	log, _, err := telemetry.NewLog(telemetry.LogOptions{
		Stderr: opts.Stderr, Level: opts.Getenv("KAGED_LOG_LEVEL"), Format: opts.Getenv("KAGED_LOG_FORMAT"), Quiet: true,
	})
	if err != nil {
		return nil, err
	}
	var modules []host.Module
	for _, m := range opts.Modules {
		if slices.Contains(names, m.Name) {
			modules = append(modules, m)
		}
	}
	h, err := host.New(host.Options{
		File: file, ConfigPath: opts.ConfigPath, DataDir: opts.DataDir, Log: log, Version: version.String(),
		Getenv: opts.Getenv, Private: true,
		NoSandbox: noSandbox,
	}, modules...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{opts, file, h, cancel, make(chan error, 1)}
	started := make(chan struct{})
	go func() { p.ended <- h.Run(ctx, func() { close(started) }) }()
	select {
	case <-started:
		return p, nil
	case err := <-p.ended:
		cancel()
		return nil, err
	}
}

// own returns kaged's own paths, as a daemon with this configuration and dataDir has them.
func (p *process) own(dataDir ownpath.Path) ([]ownpath.Path, error) {
	return host.Own(p.file, p.opts.ConfigPath, dataDir, p.opts.Getenv, p.opts.Modules...)
}

// Close cancels the services and returns when they have ended.
func (p *process) Close() error {
	p.cancel()
	return <-p.ended
}

// Caller is the agent that calls tools.
type Caller struct {
	// Agent is the tree path of an agent of the project.
	Agent string
	// Tools are the canonical names of its tools, Cage is its cage.
	Tools []string
	Cage  *commonv1.CagePolicy
	// ProjectCaged is true if an agent of the project has a cage. LanguageServers are those that the project declares.
	ProjectCaged    bool
	LanguageServers []dsl.LanguageServer
	// Debugging has the settings for debugging the project's programs.
	Debugging dsl.Debugging
	// KnowsFiles is true if the files that it names count as read.
	KnowsFiles bool
	// ApproveWrites is true if its calls that change files or run programs need approval.
	ApproveWrites bool
}

// rootAgent is the tree path of a project's root agent.
const rootAgent = "primary"

// Operator returns the person at the terminal, with every tool and no cage.
func (b *Bench) Operator(ctx context.Context) (Caller, error) {
	list, err := b.tools.ListTools(ctx, &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		return Caller{}, err
	}
	as := Caller{Agent: rootAgent}
	if there, err := b.HasProject(ctx); err == nil && there {
		// A file that does not compile may be intended to have a cage.
		explained, _, err := b.Explain(ctx, "")
		as.ProjectCaged, as.LanguageServers = err != nil || explained.AnyCaged, explained.LanguageServers
		as.Debugging = explained.Debugging
	}
	for _, t := range list.GetTools() {
		as.Tools = append(as.Tools, t.GetName())
	}
	return as, nil
}

// Catalogue returns all tools, each with whether the agent can use it.
func (b *Bench) Catalogue(ctx context.Context, as Caller) ([]*toolrunnerv1.Tool, error) {
	list, err := b.tools.ListTools(ctx, &toolrunnerv1.ListToolsRequest{Context: b.context(as)})
	return list.GetTools(), err
}

//convert:one callContext(session, root string) Caller *toolrunnerv1.ToolContext Agent=Caller
//convert:with >SessionId=session >RunId=session >ProjectRoot=root
//convert:with >RequestId=ident.New() >OperatorId=operator >ProjectId=- >InvocationId=- >CageId=- >IssueNumber=- >Job=-

func (b *Bench) context(as Caller) *toolrunnerv1.ToolContext {
	return callContext(as, b.session, b.root)
}

// operator is the person at the terminal, in records.
const operator = "operator"

// Call is one tool call.
type Call struct {
	// Tool is a name or an alias, Input its parameters as JSON text.
	Tool, Input string
	// Show receives the tool's output while it runs.
	Show func(text string)
	// Approve requests an operator's approval of a call. Its error becomes the call's result.
	Approve func(*commonv1.ApprovalSubject) error
}

// Outcome is the result of a call.
type Outcome struct {
	// Content is the result as canonical JSON, or an error object if Failed.
	Content string
	Failed  bool
	// Records are the audit records of the call.
	Records []*commonv1.AuditRecord
}

// Call runs a call to its end. The failure of a tool is an outcome; an error is one of the services, or ctx's.
func (b *Bench) Call(ctx context.Context, as Caller, call Call) (Outcome, error) {
	req := &toolrunnerv1.RunToolRequest{CallId: ident.New(), Tool: call.Tool, Input: call.Input, Context: b.context(as)}
	var out Outcome
	for {
		last, err := b.run(ctx, req, call.Show)
		if err != nil {
			return out, err
		}
		if result := last.GetResult(); result != nil {
			out.Records = append(out.Records, result.GetAudit()...)
			if f := fault.FromProto(result.GetError()); f != nil && ctx.Err() != nil {
				return out, f
			}
			out.Content, out.Failed = result.GetContent(), result.GetError() != nil
			return out, nil
		}
		asked := last.GetApproval()
		out.Records = append(out.Records, asked.GetAudit()...)
		answer := call.Approve(asked.GetSubject())
		out.Records = append(out.Records, decision(as, req, answer))
		if answer != nil {
			out.Content, out.Failed = fault.From(answer).ToolError(), true
			return out, nil
		}
		req.Grant = &toolrunnerv1.ToolGrant{Fingerprint: asked.GetFingerprint()}
	}
}

// patience is the time that a cancelled call has to end, before its records are abandoned.
const patience = 5 * time.Second

// events is the stream of a call.
type events = grpc.ServerStreamingClient[toolrunnerv1.RunToolEvent]

// run sends one request and returns its last event.
func (b *Bench) run(
	ctx context.Context, req *toolrunnerv1.RunToolRequest, show func(string),
) (*toolrunnerv1.RunToolEvent, error) {
	lasting, stop := rpc.Lasting(ctx, patience, func(ctx context.Context) error {
		_, err := b.tools.CancelTool(ctx, &toolrunnerv1.CancelToolRequest{SessionId: b.session, CallId: req.GetCallId()})
		return err
	})
	defer stop()
	var last *toolrunnerv1.RunToolEvent
	err := rpc.Each(func(opts ...grpc.CallOption) (events, error) {
		return b.tools.RunTool(lasting, req, opts...)
	}, func(event *toolrunnerv1.RunToolEvent) {
		if event.GetOutput() != nil {
			show(event.GetOutput().GetText())
		} else {
			last = event
		}
	})
	switch {
	case last != nil:
		return last, nil
	case err == nil:
		err = io.EOF
	}
	return nil, fault.From(err)
}
