package config

import "fmt"

// MaxSteps is the highest step limit of a run, in model calls.
const MaxSteps = 100

// Limits limits work on this daemon. Zero means an absent key, which has the default.
type Limits struct {
	// SessionsPerProject is the maximum number of running sessions of one project; 4 by default.
	SessionsPerProject int `toml:"sessions_per_project"`
	// SessionsPerOperator is the maximum number of running sessions of one operator; 16 by default.
	SessionsPerOperator int `toml:"sessions_per_operator"`
	// MaxSteps is the maximum number of model calls in a run, for projects without their own limit; 20 by default.
	MaxSteps int `toml:"max_steps"`
	// LiveAgents is the maximum number of agents of one session that work at the same time, the root agent included. If
	// unset, the key live_agents of [services.harness] applies, which is 16 by default.
	LiveAgents int `toml:"live_agents"`
	// RequestsPerMinute is the maximum number of requests of an operator per minute at all gateways together, without the
	// requests that have their own limit; 600 by default.
	RequestsPerMinute int `toml:"requests_per_minute"`
	// MessagesPerMinute is the maximum number of messages that an operator may post per minute; 30 by default.
	MessagesPerMinute int `toml:"messages_per_minute"`
	// ValidationsPerMinute is the maximum number of project files that an operator may validate per minute; 120 by
	// default.
	ValidationsPerMinute int `toml:"validations_per_minute"`
	// DSLWritesPerMinute is the maximum number of project files that an operator may write over the API per minute; 10 by
	// default.
	DSLWritesPerMinute int `toml:"dsl_writes_per_minute"`
	// AuditReadsPerMinute is the maximum number of pages of the audit record that an operator may read per minute; 30 by
	// default.
	AuditReadsPerMinute int `toml:"audit_reads_per_minute"`
}

// MaxPerMinute is the highest value of a rate limit.
const MaxPerMinute = 1_000_000

// MaxLiveAgents is the highest value of live_agents.
const MaxLiveAgents = 1000

// validateLimits wants each limit that stands in the file in its range.
func (f *File) validateLimits(data []byte) error {
	for _, e := range entries(data) {
		if len(e.path) != 2 || e.path[0] != "limits" {
			continue
		}
		v := map[string]int{
			"sessions_per_project": f.Limits.SessionsPerProject, "sessions_per_operator": f.Limits.SessionsPerOperator,
			"max_steps":   f.Limits.MaxSteps,
			"live_agents": f.Limits.LiveAgents, "requests_per_minute": f.Limits.RequestsPerMinute,
			"messages_per_minute": f.Limits.MessagesPerMinute, "validations_per_minute": f.Limits.ValidationsPerMinute,
			"dsl_writes_per_minute": f.Limits.DSLWritesPerMinute, "audit_reads_per_minute": f.Limits.AuditReadsPerMinute,
		}[e.path[1]]
		if v < 1 {
			return f.wrong(data, e.path, "a limit is at least 1")
		}
	}
	for name, v := range map[string]int{
		"requests_per_minute": f.Limits.RequestsPerMinute, "messages_per_minute": f.Limits.MessagesPerMinute,
		"validations_per_minute": f.Limits.ValidationsPerMinute, "dsl_writes_per_minute": f.Limits.DSLWritesPerMinute,
		"audit_reads_per_minute": f.Limits.AuditReadsPerMinute,
	} {
		if v > MaxPerMinute {
			return f.wrong(data, []string{"limits", name}, fmt.Sprintf("a rate limit is at most %d", MaxPerMinute))
		}
	}
	if f.Limits.MaxSteps > MaxSteps {
		return f.wrong(data, []string{"limits", "max_steps"}, fmt.Sprintf("a run has at most %d steps", MaxSteps))
	}
	if f.Limits.LiveAgents > MaxLiveAgents {
		return f.wrong(data, []string{"limits", "live_agents"},
			fmt.Sprintf("a session has at most %d agents at work", MaxLiveAgents))
	}
	return nil
}
