package core

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/late"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// Options are the limits of the pool.
type Options struct {
	// Entries is the catalogue.
	Entries []Entry
	// Idle is the time after its last query until a server is stopped. Restarts is the maximum number of restarts of a
	// crashing server in a session.
	Idle     time.Duration
	Restarts int
	// StartTimeout limits the handshake, QueryTimeout an answer, StopGrace the time between the request to exit and the
	// kill.
	StartTimeout, QueryTimeout, StopGrace time.Duration
	// Wait is the default time that a query waits for a loading server.
	Wait time.Duration
	// Quiet is the time without a publication after which the diagnostics of a server without versions count as complete.
	Quiet time.Duration
	// Parallel is the maximum number of simultaneous requests to one server, Servers the maximum number of servers.
	Parallel, Servers int
	// MessageBytes is the maximum size of a server's message, DocumentBytes of a document, Documents the maximum number of
	// a server's open documents, AnswerBytes the maximum size of an answer of the pool.
	MessageBytes, DocumentBytes, Documents, AnswerBytes int
	// LookupEnv reads kaged's environment. Environment builds the environment of a program, in a cage or without.
	LookupEnv   func(string) (string, bool)
	Environment func(caged bool, declared map[string]string) map[string]string
	// Caging determines whether the server of a caller without a cage has one.
	Caging Caging
	// Records receives the records that no answer returns.
	Records *late.Log
}

// Pool holds servers. It is safe for concurrent use.
type Pool struct {
	opts     Options
	launcher Launcher
	watch    func(root string) Tree
	log      *slog.Logger
	now      func() time.Time
	draining chan struct{} // closed by drain
	drain    func()
	drained  chan struct{} // closed by finish, when the records of the servers' ends are in the log
	finish   func()

	mu      sync.Mutex // guards the fields below
	servers map[string]*server
	trees   map[string]*tree
	closed  bool
	holds   int
}

// New returns a pool without servers. watch watches the files below a root.
func New(opts Options, launcher Launcher, watch func(root string) Tree, log *slog.Logger) *Pool {
	draining, drained := make(chan struct{}), make(chan struct{})
	opts.Entries = slices.Clone(opts.Entries)
	for i := range opts.Entries {
		opts.Entries[i].text = opts.Entries[i].identity()
	}
	return &Pool{
		opts: opts, launcher: launcher, watch: watch, log: log, now: time.Now, servers: map[string]*server{},
		trees: map[string]*tree{}, draining: draining, drain: sync.OnceFunc(func() { close(draining) }),
		drained: drained, finish: sync.OnceFunc(func() { close(drained) }),
	}
}

// Run stops idle servers until ctx ends, then all servers, and returns when they have ended.
func (p *Pool) Run(ctx context.Context) error {
	tick := time.NewTicker(max(p.opts.Idle/20, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.endIdle(ctx)
		case <-ctx.Done():
			p.mu.Lock()
			p.closed = true
			p.mu.Unlock()
			p.endAll(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// endAll stops all servers.
func (p *Pool) endAll(ctx context.Context) {
	p.each(func(*server) bool { return true }, func(s *server) { s.end(ctx, Shutdown) })
}

// endIdle stops servers that had no query for long, and removes those that do not run.
func (p *Pool) endIdle(ctx context.Context) {
	now := p.now()
	p.each(func(s *server) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.users == 0 && s.run != nil && now.Sub(s.used) >= p.opts.Idle
	}, func(s *server) { s.end(ctx, idleTime) })
}

// each calls do with the wanted servers in parallel, and returns when all calls have returned.
func (p *Pool) each(want func(*server) bool, do func(*server)) []*server {
	p.mu.Lock()
	var list []*server
	for _, s := range p.servers {
		if want(s) {
			list = append(list, s)
		}
	}
	p.mu.Unlock()
	var doing sync.WaitGroup
	for _, s := range list {
		doing.Go(func() { do(s) })
	}
	doing.Wait()
	slices.SortFunc(list, func(a, b *server) int { return strings.Compare(a.id, b.id) })
	return list
}

// Filter selects servers; empty fields select all.
type Filter struct {
	ProjectID, Root, Lang string
	// View selects the servers that the view's caller shares.
	View *View
}

func (p *Pool) takes(f Filter, s *server) bool {
	return (f.View == nil || p.shares(*f.View, s)) &&
		(f.ProjectID == "" || f.ProjectID == s.view.ProjectID) && (f.Root == "" || f.Root == s.view.Root) &&
		(f.Lang == "" || f.Lang == s.entry.Lang)
}

// shares reports whether a server answers callers with a view.
func (p *Pool) shares(v View, s *server) bool {
	e, ok := v.entry(p.opts.Entries, s.entry.Lang)
	return ok && len(e.Commands) > 0 && p.opts.key(v, e) == s.key
}

// Servers returns servers, the oldest first.
func (p *Pool) Servers(f Filter) (list []contract.RunningLanguageServer) {
	for _, s := range p.each(func(s *server) bool { return p.takes(f, s) }, func(*server) {}) {
		list = append(list, s.info())
	}
	return list
}

// The reasons of a stop, in the form for records.
const (
	Reload   = "reload"
	Unload   = "project_unload"
	Shutdown = "daemon_shutdown"
	idleTime = "idle_timeout"
)

// Stop stops servers and returns them. They start again with the next query. With the reason Unload they are also
// removed, and Stop returns the records that no answer has returned; for other reasons these go to the log.
func (p *Pool) Stop(
	ctx context.Context, f Filter, reason string,
) (list []contract.RunningLanguageServer, records []contract.Record) {
	taken := func(s *server) bool { return p.takes(f, s) }
	for _, s := range p.each(taken, func(s *server) { s.stop(ctx, reason) }) {
		list = append(list, s.info())
		if reason == Unload {
			records = append(records, s.takeRecords()...)
			p.drop(s)
		} else {
			s.release()
		}
	}
	return list, records
}

// drop removes a server, unless a query has started it again.
func (p *Pool) drop(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.servers[s.key] == s && s.idle() {
		delete(p.servers, s.key)
	}
}

// lang returns the language of a file. It fails with invalid_params for a file of an unknown language.
func (p *Pool) lang(v View, path string) (string, error) {
	ext := strings.ToLower(filepath.Ext(path))
	for _, e := range v.entries(p.opts.Entries) {
		if e.Extensions[ext] != "" {
			return e.Lang, nil
		}
	}
	return "", fault.New(fault.InvalidParams, "There is no language server for %s; known are the languages %s.",
		filepath.Base(path), strings.Join(p.langs(v), ", ")).
		With("field", "path")
}

func (p *Pool) langs(v View) (list []string) {
	for _, e := range v.entries(p.opts.Entries) {
		list = append(list, e.Lang)
	}
	return list
}

// find returns the server of a view for a query about a file. It adds a missing one, unless warm is true. It fails with
// rate_limited if there are too many.
func (p *Pool) find(v View, lang, file string, warm bool) (*server, error) {
	e, ok := v.entry(p.opts.Entries, lang)
	if !ok || len(e.Commands) == 0 {
		return nil, fault.New(fault.InvalidParams, "There is no language server for %q; known are %s.", lang,
			strings.Join(p.langs(v), ", ")).With("field", "lang")
	}
	v.SessionID = ""
	key := p.opts.key(v, e)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.servers[key]; s != nil || warm {
		return s, nil
	}
	if p.closed {
		return nil, stopping()
	}
	if len(p.servers) >= p.opts.Servers && !p.forget() {
		return nil, fault.New(fault.RateLimited, "There are %d language servers; no more are started.",
			len(p.servers)).With("limit", p.opts.Servers)
	}
	s := &server{
		pool: p, id: ident.New(), key: key, view: v, entry: e, near: file, turn: make(chan struct{}, 1),
		slots: make(chan struct{}, cmp.Or(e.Parallel, p.opts.Parallel)), crashes: map[string]int{}, used: p.now(),
	}
	p.servers[key] = s
	return s, nil
}

// forget removes a server that does not run, and reports whether there was one. p.mu is held.
func (p *Pool) forget() bool {
	for key, s := range p.servers {
		if s.idle() {
			delete(p.servers, key)
			return true
		}
	}
	return false
}

// idle reports whether the server neither runs nor starts.
func (s *server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run == nil && s.users == 0 && len(s.turn) == 0
}

func exitText(e contract.Exit) string {
	if e.Signal != "" {
		return strconv.Itoa(e.Code) + " (" + e.Signal + ")"
	}
	return strconv.Itoa(e.Code)
}

// Tree watches the files below a root.
type Tree interface {
	// Changes returns the files that changed between the last call and this one.
	Changes(ctx context.Context) []lsp.Change
	Close()
}

// tree is a watched root that servers share.
type tree struct {
	pool  *Pool
	root  string
	watch func() Tree // the first call reads the files; others wait for it
	users int         // guarded by pool.mu

	mu   sync.Mutex // guards the fields below
	seq  uint64
	last map[string]seen
}

type seen struct {
	seq  uint64
	kind int
}

// lease is a server's use of a tree.
type lease struct {
	*tree
	release func()
}

// lease returns a use of the tree of a root. The files are watched from the return of the first call of watch on.
func (p *Pool) lease(root string) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trees[root]
	if t == nil {
		t = &tree{
			pool: p, root: root, watch: sync.OnceValue(func() Tree { return p.watch(root) }), last: map[string]seen{},
		}
		p.trees[root] = t
	}
	t.users++
	return &lease{t, sync.OnceFunc(func() {
		p.mu.Lock()
		t.users--
		last := t.users == 0
		if last {
			delete(p.trees, root)
		}
		p.mu.Unlock()
		if last {
			t.watch().Close()
		}
	})}
}

// position returns the number of the last change.
func (t *tree) position() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq
}

// add records changes of files.
func (t *tree) add(list []lsp.Change) {
	for _, c := range list {
		t.seq++
		t.last[c.Path] = seen{t.seq, c.Kind}
	}
}

// since returns the changes after a position, and the new position. known are changes that the caller already knows.
func (t *tree) since(ctx context.Context, position uint64, known []lsp.Change) ([]lsp.Change, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(known)
	t.add(t.watch().Changes(ctx))
	if t.seq == position { // before most queries no file has changed, and last has every file that has ever changed
		return nil, position
	}
	var list []lsp.Change
	for path, s := range t.last {
		if s.seq > position {
			list = append(list, lsp.Change{Path: path, Kind: s.kind})
		}
	}
	slices.SortFunc(list, func(a, b lsp.Change) int { return strings.Compare(a.Path, b.Path) })
	return list, t.seq
}
