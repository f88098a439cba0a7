package posthaste

import (
	"net/http"
	"strings"
	"time"
)

// Run is one execution of a workflow. What it was triggered with never changes
// once its first step is known; how far it has come is its RunProgress.
type Run struct {
	RunRef
	User     string
	CallerIP string    // address of the caller who triggered it, without port
	Features Features  // of its trigger
	FirstID  MessageID // of the message that delivers its first entry
	Queue    string    // that this message goes through, "" for none
	LazySDK  bool      // its SDK has shown that it fetches what is not delivered
	Settings           // what its deliveries inherit

	// Overridden says what of these settings was given when a failed run was restarted,
	// or one that it came from: there they beat what a delivery has itself.
	Overridden Overridden

	Invoker *RunRef    // the run that waits for its result, if any
	Origin  *RunOrigin // the failed run it restarts or resumes, if any

	RunProgress
}

// RunRef identifies a run. An id may be used again after its run has ended, so
// clients know a run by its id and the time it was created; a store knows it by
// its position among the runs of its user.
type RunRef struct {
	ID        string
	CreatedAt time.Time // that of the position
	Position  Position
	URL       string // of the workflow
}

// RunOrigin says where a run came from that nobody triggered.
type RunOrigin struct {
	RunRef
	DeadLetterID DeadLetterID
	Resumed      bool // the run continues with the list of the failed one, rather than from its payload
}

// RunProgress is how far a run has come.
type RunProgress struct {
	State         RunState
	Entries       int       // length of its list
	ListBytes     int       // of the bodies in its list
	CompletedAt   time.Time // zero while it is active
	Result        *string   // what it returned, as its SDK wrote it
	DeadLetterID  DeadLetterID
	FailedID      MessageID    // the message whose delivery failed it
	FailedStatus  int          // of the answer to that; 503 if there was none, 504 after a timeout
	Reported      *RunCallback // where its failure callback stands; nil if it has none
	Successor     *RunRef      // the run that restarted or resumed this one
	BufferedBytes int          // of events that are kept for its later waits, or for those of the run that resumes it
}

// RunCallback is where the failure callback of a run stands.
type RunCallback struct {
	MessageID MessageID
	URL       string
	State     CallbackState
	NotFound  bool      // the destination has no failure function
	Response  *Response // the last answer
	Error     string    // why there is none, for people
}

// Active reports whether the run has not ended.
func (p *RunProgress) Active() bool { return p.State == RunStarted }

// RunState is the state of a run.
type RunState string

// The states of a run (contract, workflows 1.3).
const (
	RunStarted   RunState = "RUN_STARTED"
	RunSuccess   RunState = "RUN_SUCCESS"
	RunFailed    RunState = "RUN_FAILED"
	RunCancelled RunState = "RUN_CANCELED"
)

// RunStates lists every state of a run.
var RunStates = []RunState{RunStarted, RunSuccess, RunFailed, RunCancelled}

// CallbackState is the state of a failure callback.
type CallbackState string

// The states of a failure callback (contract, workflows 1.3).
const (
	CallbackInProgress CallbackState = "CALLBACK_INPROGRESS"
	CallbackSuccess    CallbackState = "CALLBACK_SUCCESS"
	CallbackFailed     CallbackState = "CALLBACK_FAIL"
	CallbackCancelled  CallbackState = "CALLBACK_CANCELED"
)

// CallbackStates lists every state of a failure callback.
var CallbackStates = []CallbackState{CallbackInProgress, CallbackSuccess, CallbackFailed, CallbackCancelled}

// CallbackState returns the state of the run's failure callback, "" if it has none.
func (r *Run) CallbackState() CallbackState {
	if r.Reported == nil {
		return ""
	}
	return r.Reported.State
}

// CallType says what an entry of a run's list is, and what a message delivers.
type CallType string

// The call types (contract, workflows 3.1). SDKs may send others: they are kept
// and never delivered.
const (
	CallStep    CallType = "step"         // to the workflow: the list up to this entry
	CallRequest CallType = "toCallback"   // a request that the server makes for a step
	CallAnswer  CallType = "fromCallback" // to the workflow: what came of such a request
	CallFailure CallType = "failureCall"  // to the failure callback; no entry of the list
)

// RunEntry is one entry of a run's list: what its SDK finds there when it replays
// the workflow. A list only grows.
type RunEntry struct {
	Index     int // from 0, the initial payload
	MessageID MessageID
	CallType  CallType
	Body      []byte // as it was published
}

// RunLink ties a message to the run it belongs to.
type RunLink struct {
	RunRef
	CallType CallType
	Entry    int // index in the run's list; of no meaning for CallFailure
	Features Features

	// ListBytes is how many bytes the bodies of the list have up to that entry, which a
	// step delivers all; 0 for CallFailure.
	ListBytes int
}

// Waiter is a step of a run that ends when something happens: an event is
// notified, a deadline passes, or a run it invoked ends.
type Waiter struct {
	Position  Position // its place among what waits, in the order of beginning
	Run       RunRef
	MessageID MessageID // of the delivery that the run will get
	CreatedAt time.Time
	After     int    // entries of the run's list when it began to wait
	Step      []byte // the step as its SDK described it, JSON
	Topic     Topic  // what it waits for
	Invoked   *RunRef

	Delivery Settings // of the delivery when it happened

	Deadline        time.Time // zero: it waits for ever
	Timeout         string    // the time it waits at most, as its SDK wrote it
	TimeoutURL      string
	TimeoutDelivery Settings // of the delivery when the deadline has passed

	Shown WaiterShown
}

// WaiterShown is what a waiter looks like to those who ask for it: the request
// that made it.
type WaiterShown struct {
	URL           string
	Header        http.Header
	TimeoutBody   []byte
	TimeoutHeader http.Header
}

// Topic is what a waiter waits for: an event, or the end of a run.
type Topic string

// EventTopic is the topic of an event id.
func EventTopic(eventID string) Topic { return Topic("event:" + eventID) }

// RunTopic is the topic of the end of a run.
func RunTopic(run RunRef) Topic {
	return Topic("run:" + DeadLetterID(run.Position).String())
}

// EventID returns the event id of the topic; ok is false for the end of a run.
func (t Topic) EventID() (id string, ok bool) { return strings.CutPrefix(string(t), "event:") }

// Overridden is a set of settings that were given in place of those a run was triggered
// with.
type Overridden uint8

// The settings that can be overridden (contract, workflows 7.2). Their numbers are
// stored.
const (
	OverriddenRetries Overridden = 1 << iota
	OverriddenRetryDelay
	OverriddenFlowControl // both halves: what was given, and the other of the trigger
	OverriddenLabels
	OverriddenFailureCallback // its URL
)

// Has reports whether the set has all of the settings.
func (o Overridden) Has(settings Overridden) bool { return o&settings == settings }

// Features is the set of what an SDK, or a message of its, asks for.
type Features uint8

// The features (contract, workflows 2.2). Their numbers are stored.
const (
	FeatureLazyFetch       Features = 1 << iota // a large list may be fetched instead of delivered
	FeatureInitialBody                          // a failure callback contains the initial payload
	FeatureNoDelete                             // a failed call is an answer, not a failure of the run
	FeatureDetectTrigger                        // the first answer must be that of a workflow
	FeatureTriggerOnConfig                      // deliveries inherit what the trigger was given
	FeatureCheckSDK                             // the first answer must name an SDK of a known version
	FeatureUnknownSDK                           // the SDK is asked to trigger the run once more, in its own words
)

var featureNames = map[string]Features{
	"LazyFetch":          FeatureLazyFetch,
	"InitialBody":        FeatureInitialBody,
	"WF_NoDelete":        FeatureNoDelete,
	"WF_DetectTrigger":   FeatureDetectTrigger,
	"WF_TriggerOnConfig": FeatureTriggerOnConfig,
}

// ParseFeatures reads lists of features joined by commas. Unknown ones are left
// out.
func ParseFeatures(lists []string) Features {
	var set Features
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			set |= featureNames[strings.TrimSpace(name)]
		}
	}
	return set
}

// Has reports whether the set has all of the features.
func (f Features) Has(features Features) bool { return f&features == features }
