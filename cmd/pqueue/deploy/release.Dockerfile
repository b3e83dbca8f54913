# The image of a release: what the Dockerfile beside it makes, of binaries that goreleaser has built for each platform.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
RUN mkdir -p /empty/tmp && chmod 1777 /empty/tmp

FROM scratch
ARG TARGETPLATFORM
COPY --from=build /empty/ /
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY $TARGETPLATFORM/pqueue /pqueue
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/pqueue"]
CMD ["serve", "--config", "/etc/pqueue/pqueue.yaml"]
