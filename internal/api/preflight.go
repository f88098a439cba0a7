package api

import "net/http"

// IsPreflight reports whether a browser asks, before a request of a script, whether it may
// be made.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// AllowOrigins lets scripts of any web page read an answer.
func AllowOrigins(header http.Header) { header.Set("Access-Control-Allow-Origin", "*") }

// AnswerPreflight allows any web page the request that the browser asks about. The headers
// are repeated because "*" does not cover Authorization.
func AnswerPreflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	AllowOrigins(header)
	header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	header.Set("Access-Control-Max-Age", "600")
	header.Add("Vary", "Access-Control-Request-Headers")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	w.WriteHeader(http.StatusNoContent)
}
