package telemetry

// Kind is the kind of a metric.
type Kind string

// The kinds.
const (
	// Counter only rises.
	Counter Kind = "counter"
	// Histogram is a distribution.
	Histogram Kind = "histogram"
	// Gauge rises and falls.
	Gauge Kind = "gauge"
)

// Metric is one metric of kaged, with the same name in Prometheus and over OTLP.
type Metric struct {
	Name string
	Kind Kind
	// Help is its meaning, in one sentence.
	Help string
	// Service is the service that records it.
	Service string
	// Labels are the names of its labels.
	Labels []string
	// Bounds are the buckets of a histogram.
	Bounds []float64
}

// The buckets of durations: for calls of models, which take up to minutes, and for calls of tools.
var (
	slow = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}
	fast = []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600}
)

// The metrics. Labels have few values, never text of a model or a client.
var (
	Runs = Metric{
		Name: "kaged_runs_total", Kind: Counter, Service: "session-manager", Labels: []string{"outcome"},
		Help: "Runs that ended, by outcome: completed, failed, cancelled.",
	}
	RunSeconds = Metric{
		Name: "kaged_run_seconds", Kind: Histogram, Service: "session-manager", Labels: []string{"outcome"}, Bounds: slow,
		Help: "Time from the start of a run to its end.",
	}
	RunFailures = Metric{
		Name: "kaged_run_failures_total", Kind: Counter, Service: "session-manager", Labels: []string{"code"},
		Help: "Failed runs by error code.",
	}
	Steps = Metric{
		Name: "kaged_steps_total", Kind: Counter, Service: "harness", Labels: []string{"provider", "model"},
		Help: "Turns of models that came in whole.",
	}
	Tokens = Metric{
		Name: "kaged_tokens_total", Kind: Counter, Service: "harness", Labels: []string{"provider", "model", "kind"},
		Help: "Tokens by kind: input, cache_read, cache_write, output. Those of answers that broke off are estimated.",
	}
	CostUSD = Metric{
		Name: "kaged_cost_usd_total", Kind: Counter, Service: "harness", Labels: []string{"provider", "model"},
		Help: "Cost of model calls in US dollars, as far as prices are known.",
	}
	ProviderSeconds = Metric{
		Name: "kaged_provider_seconds", Kind: Histogram, Service: "harness", Bounds: slow,
		Labels: []string{"provider", "model", "code"},
		Help:   "Time of one call of a model, by error code, ok for none.",
	}
	TTFTSeconds = Metric{
		Name: "kaged_ttft_seconds", Kind: Histogram, Service: "harness", Labels: []string{"provider", "model"}, Bounds: slow,
		Help: "Time from a request to the first piece of the answer.",
	}
	ToolCalls = Metric{
		Name: "kaged_tool_calls_total", Kind: Counter, Service: "harness", Labels: []string{"tool", "code"},
		Help: "Calls of tools by agents, by error code, ok for none.",
	}
	ToolSeconds = Metric{
		Name: "kaged_tool_seconds", Kind: Histogram, Service: "harness", Labels: []string{"tool"}, Bounds: fast,
		Help: "Time of one call of a tool, with the wait for an approval.",
	}
	Delegations = Metric{
		Name: "kaged_delegations_total", Kind: Counter, Service: "harness", Labels: []string{"outcome"},
		Help: "Calls of agents by agents, by outcome: completed, failed, cancelled.",
	}
	Agents = Metric{
		Name: "kaged_agents", Kind: Gauge, Service: "harness", Help: "Agents at work, roots included.",
	}
	Leases = Metric{
		Name: "kaged_leases", Kind: Gauge, Service: "session-manager", Help: "Sessions whose lease this process holds.",
	}
	Queue = Metric{
		Name: "kaged_queue", Kind: Gauge, Service: "session-manager",
		Help: "Messages that wait because as many as run_starts are being stored.",
	}
	Frames = Metric{
		Name: "kaged_frames_total", Kind: Counter, Service: "session-manager", Labels: []string{"channel"},
		Help: "Frames published, by channel: output, events.",
	}
	Sockets = Metric{
		Name: "kaged_sockets", Kind: Gauge, Service: "gateway", Help: "Open WebSockets.",
	}
	Cages = Metric{
		Name: "kaged_cages", Kind: Gauge, Service: "sandbox-supervisor", Help: "Live cages.",
	}
)

// All returns the metrics in the order of the reference.
func All() []Metric {
	return []Metric{
		Runs, RunSeconds, RunFailures, Steps, Tokens, CostUSD, ProviderSeconds, TTFTSeconds, ToolCalls, ToolSeconds,
		Delegations, Agents, Leases, Queue, Frames, Sockets, Cages,
	}
}
