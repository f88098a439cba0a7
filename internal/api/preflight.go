package api

import "net/http"

// IsPreflight reports whether a browser asks if a script may make a request.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// AllowOrigins lets scripts of any web page read the response.
func AllowOrigins(header http.Header) { header.Set("Access-Control-Allow-Origin", "*") }

// AnswerPreflight allows the request. It repeats the headers because "*" does not include
// Authorization.
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
