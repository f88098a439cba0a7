package api

import "net/http"

// readinessView answers a client that waits for the server.
type readinessView struct {
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"` // why not
}

// getReadiness says whether the server does its work, to anybody: one SDK asks
// before it has a token.
func (a *api) getReadiness(*request) (answer, error) {
	if err := a.options.Ready(); err != nil {
		return answer{http.StatusServiceUnavailable, readinessView{Error: err.Error()}}, nil
	}
	return ok(readinessView{Ready: true}), nil
}

// livenessView answers a client that waits for the process.
type livenessView struct {
	Live bool `json:"live"`
}

// getLiveness says to anybody that the process answers, be it ready or not: the tests
// of one SDK ask.
func (a *api) getLiveness(*request) (answer, error) { return ok(livenessView{Live: true}), nil }
