// Package docs is the text of the documentation, for the server to show.
package docs

import "embed"

// Files are the pages, in Markdown, and their pictures.
//
//go:embed *.md guides design pictures
var Files embed.FS
