// Package telemetry makes a process's log and, where it is asked for, its traces.
//
// The log goes to stderr, as text for people or as JSON lines, and to <data>/log/<name>.log as JSON lines, rotated. Traces go to an OTLP
// collector where the standard OTEL_EXPORTER_OTLP_ENDPOINT names one, and cost nothing where it does not. Neither holds
// prompts, answers or secrets.
package telemetry
