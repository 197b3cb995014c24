package rpc

// HealthReason is the trailer of a health check with the reason why a service is not ready, one sentence in printable
// ASCII.
const HealthReason = "kaged-not-ready"
