package record

// Status is a project's sessions and recent work in numbers.
type Status struct {
	// Sessions are counts by state.
	Sessions map[State]int
	// Answers and Used are of the last 24 hours: messages of root agents, and the use of runs.
	Answers int
	Used    Totals
	// Recent are the last runs, newest first, LiveAgents the agents at work below root agents.
	Recent     []Run
	LiveAgents int
}
