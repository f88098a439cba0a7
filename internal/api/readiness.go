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
