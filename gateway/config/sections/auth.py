"""Who may log in."""

from pydantic import Field

from lance_gateway.gateway.config.sections.section import Section
from lance_gateway.gateway.config.value_types import File, Names, Seconds


class JwtSection(Section):
    """Bearer tokens that an identity provider signs; on when `jwks` is set."""

    jwks: str = Field(default="", description="URL or file of the provider's key set.")
    issuer: str = Field(default="", description="The `iss` claim that a token must have; must be set.")
    audience: Names = Field(default=(), description="The `aud` claim must hold one of these; must be set.")
    algorithms: Names = Field(
        default=("RS256", "ES256"), description="Signature algorithms that are accepted."
    )
    user_claim: str = Field(
        default="sub", description="Claim that names the user; a path with dots leads into claims."
    )
    roles_claim: str = Field(
        default="roles", description="Claim that lists the user's roles; a path likewise."
    )
    leeway: Seconds = Field(default=30.0, description="How far clocks may differ.")


class AuthSection(Section):
    """Who may connect and what they may see."""

    insecure: bool = Field(
        default=False, description="Serve other machines without authentication, knowingly."
    )
    users_file: File = Field(default=None, description="TOML file of users with password hashes and roles.")
    tokens_file: File = Field(default=None, description="TOML file of static API tokens.")
    policy_file: File = Field(
        default=None, description="TOML file of grants, row filters and masks per role."
    )
    certificates: bool = Field(
        default=False, description="Take the user from the client's certificate; needs `tls.client_ca_file`."
    )
    token_lifetime: Seconds = Field(
        default=12 * 3600.0, gt=0, description="How long a token issued for a password lasts."
    )
    max_failures: int = Field(
        default=10,
        ge=1,
        description="Failed attempts of one user or peer within `failure_window` before refusal.",
    )
    failure_window: Seconds = Field(
        default=60.0, gt=0, description="Time over which failed attempts are counted."
    )
    jwt: JwtSection = JwtSection()
