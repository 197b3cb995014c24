package rpc

// HealthReason is the trailer in which a health check says why a service is not ready, in one sentence of printable
// ASCII.
const HealthReason = "kaged-not-ready"
