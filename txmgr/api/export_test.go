package api

import "github.com/danielgtaylor/huma/v2"

// Document is what /openapi.json is made from.
func Document() *huma.OpenAPI { return New(Config{}, Deps{}).API.OpenAPI() }
