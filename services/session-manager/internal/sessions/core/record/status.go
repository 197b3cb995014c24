package record

// Status is statistics of a project's sessions and recent work.
type Status struct {
	// Sessions are the numbers of sessions by state.
	Sessions map[State]int
	// Answers is the number of root agents' messages in the last 24 hours, Used the use of runs in that time.
	Answers int
	Used    Totals
	// Recent are the last runs, newest first. LiveAgents is the number of active agents below root agents.
	Recent     []Run
	LiveAgents int
}
