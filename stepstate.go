package posthaste

// StepState is the state of a step of a run. It is not stored: it follows from
// the list of the run, from what the run waits for, and from where its messages
// stand.
type StepState string

// The states of a step (contract, workflows 1.3).
const (
	StepProgress  StepState = "STEP_PROGRESS"
	StepRetry     StepState = "STEP_RETRY" // an attempt failed, another is scheduled
	StepSuccess   StepState = "STEP_SUCCESS"
	StepFailed    StepState = "STEP_FAILED"
	StepCancelled StepState = "STEP_CANCELED"
)

// StepStates lists every state of a step.
var StepStates = []StepState{StepProgress, StepRetry, StepSuccess, StepFailed, StepCancelled}
