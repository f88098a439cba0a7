module posthaste/e2e/gosdk

go 1.26

require github.com/upstash/qstash-go v1.0.0

require github.com/golang-jwt/jwt/v5 v5.2.1 // indirect
